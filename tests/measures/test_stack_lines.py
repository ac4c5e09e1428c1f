import pytest

from ddpcheck.finding import Location
from ddpcheck.measures.stack_lines import (
    current_first,
    place_of,
    place_of_site,
    told_places,
    users_place,
)
from ddpcheck.measures.testimony import Testimony

TRACEBACK = """  File "/venv/lib/python3.11/site-packages/ddpcheck/watch/script.py", line 24, in run_script
    runpy.run_path(name)
  File "<frozen runpy>", line 88, in _run_code
  File "/home/me/train.py", line 70, in <module>
    main()
  File "/home/me/train.py", line 41, in validate
    model(images)
  File "/venv/lib/python3.11/site-packages/torch/nn/parallel/distributed.py", line 1886, in forward
    return inner()
"""
DUMP = """Current thread 0x01 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 982 in run

Thread 0x02 (most recent call first):
  File "/venv/lib/python3.11/site-packages/torch/nn/parallel/distributed.py", line 1775 in _pre_forward
  File "/home/me/model.py", line 12 in step
  File "/home/me/train.py", line 40 in main
"""


@pytest.mark.parametrize(
    ("stack", "place"),
    [
        (TRACEBACK, Location("/home/me/train.py", 41, "validate")),
        (DUMP, Location("/home/me/model.py", 12, "step")),
        ("", None),
        ('  File "/usr/lib/python3.11/threading.py", line 982, in run', None),
    ],
)
def test_the_innermost_line_of_the_users(stack: str, place: Location | None) -> None:
    assert users_place(stack) == place


def test_places_are_told_for_those_that_have_one() -> None:
    told = {0: Testimony(stack=TRACEBACK), 1: Testimony()}
    assert told_places(told, (0, 1)) == "; rank 0 is at /home/me/train.py:41 in validate"
    assert told_places(told, (1,)) == ""


@pytest.mark.parametrize(
    ("told", "place"),
    [
        ("/home/me/train.py:12 in main", Location("/home/me/train.py", 12, "main")),
        ("/home/me/train.py:12", Location("/home/me/train.py", 12)),
        ("checkpoint/utils.py:135", None),
        ("", None),
    ],
)
def test_places_are_read_as_they_are_written(told: str, place: Location | None) -> None:
    assert place_of(told) == place
    assert place is None or str(place) == told


FATAL = """Fatal Python error: Segmentation fault

Thread 0x01 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 331 in wait

Current thread 0x02 (most recent call first):
  File "/app/train.py", line 4 in native
  File "/app/train.py", line 11 in main
"""


def test_the_thread_that_a_signal_came_to_is_first() -> None:
    shown = current_first(FATAL)
    assert shown.index("native") < shown.index("threading.py")
    assert shown.startswith("Fatal Python error")
    assert users_place(shown) == Location("/app/train.py", 4, "native")


def test_a_stack_of_one_thread_is_left_as_it_is() -> None:
    text = FATAL.replace("Current thread", "Thread")
    assert current_first(text) == text


def test_a_short_site_is_found_in_the_stacks_files() -> None:
    assert place_of_site("app/train.py:40", FATAL) == Location("/app/train.py", 40, "")
    assert place_of_site("other/train.py:40", FATAL) is None
    assert place_of_site("python3.11/threading.py:40", FATAL) is None
    assert place_of_site("", FATAL) is None
