"""When it is said that ranks wait for long, and how."""

import pytest

from ddpcheck.engine.long_wait import LONG_S, LongWait, told_wait
from ddpcheck.engine.standstill import STILL_S
from ddpcheck.measures.testimony import State, Testimony

WAITS = Testimony(
    state=State.BUSY,
    check="watch/script",
    waits_in="all_reduce SUM float32[8]",
    stack='  File "/app/train.py", line 41, in average\n    dist.all_reduce(total)\n',
)


def told_at(*looks: tuple[float, int, int]) -> list[float]:
    """Return when it is said; each look is at a time, with so many standing of so many."""
    wait = LongWait()
    return [at_s for at_s, standing, watched in looks if wait.is_due(standing, watched, at_s)]


LATER = LONG_S - STILL_S


def test_it_is_said_once_they_have_stood_for_so_long() -> None:
    assert told_at((0.0, 0, 2), (5.0, 1, 2), (5.0 + LATER / 2, 1, 2), (6.0 + LATER, 1, 2)) == [
        6.0 + LATER
    ]


@pytest.mark.parametrize(
    "looks",
    [
        pytest.param([(0.0, 1, 2), (20.0, 0, 2), (25.0, 1, 2), (40.0, 1, 2)], id="it went on"),
        pytest.param([(0.0, 1, 1), (100.0, 1, 1)], id="the others have told"),
    ],
)
def test_nothing_is_said(looks: list[tuple[float, int, int]]) -> None:
    assert told_at(*looks) == []


def test_it_is_said_once_a_run() -> None:
    assert told_at((0.0, 1, 2), (50.0, 1, 2), (60.0, 0, 2), (70.0, 1, 2), (200.0, 1, 2)) == [50.0]


def test_it_is_said_of_all_ranks_that_wait_in_one_call() -> None:
    assert told_at((0.0, 2, 2), (100.0, 2, 2)) == [100.0]
    assert "all ranks are in it" in told_wait({0: WAITS, 1: WAITS}, [0, 1])


def test_who_waits_where_and_who_does_not() -> None:
    told = told_wait({0: WAITS, 2: WAITS}, [0, 1, 2, 3])
    assert told.startswith(
        "rank 0, 2 has waited for 30 s, rank 0 in all_reduce SUM float32[8] at /app/train.py:41 in average; "
        "rank 1, 3 is at work elsewhere, or stuck there"
    )
