"""What is known of a rank at the end: by what it told, and by the files that it left."""

from pathlib import Path

import msgspec
import pytest

from ddpcheck.engine.assembly import Ranks
from ddpcheck.engine.blackbox import BlackBox
from ddpcheck.engine.entries import Began, Crashed, Ended, Entry, Present
from ddpcheck.engine.outcomes import last_seen, rank_records, testimony_on_files, testimony_told
from ddpcheck.measures.testimony import Call, State, Testimony
from ddpcheck.report import LastSeen

CRASH = Crashed("network/a", "ValueError: 7", "File train.py", order=3)
DUMP = "Timeout (0:00:03)!\nThread 0x1\n  File train.py\n"


@pytest.mark.parametrize(
    ("told", "changes"),
    [
        pytest.param([], {}, id="nothing"),
        pytest.param([Began("network/a", 1.0), Ended("network")], {}, id="a whole stage"),
        pytest.param(
            [CRASH, Ended("network")],
            {
                "state": State.RAISED,
                "check": "network/a",
                "error": "ValueError: 7",
                "stack": "File train.py",
                "order": 3,
            },
            id="an exception",
        ),
        pytest.param(
            [Ended("launch", unkept="No space left"), Ended("network", unkept="")],
            {"unkept": "No space left"},
            id="a file that is not whole",
        ),
    ],
)
def test_what_a_living_rank_told_completes_its_testimony(
    told: list[Entry], changes: dict[str, object]
) -> None:
    known = Testimony(state=State.ENDED, calls=(Call(1, "barrier"),), sequence=1)
    assert testimony_told(told, known) == msgspec.structs.replace(known, **changes)


def test_the_first_exception_counts() -> None:
    later = Crashed("network/b", "RuntimeError: no group", "s", order=4)
    assert testimony_told([CRASH, later], Testimony()).check == "network/a"


@pytest.mark.parametrize(
    ("check", "seen"), [("", None), ("network/a", LastSeen("network/a", "train.py"))]
)
def test_a_rank_was_last_seen_in_a_check_or_nowhere(check: str, seen: LastSeen | None) -> None:
    assert last_seen(Testimony(check=check, stack="train.py")) == seen


def test_a_rank_whose_script_has_ended_says_so_and_not_which_check_looked_on_last() -> None:
    present = Present(
        rank=0,
        local_rank=0,
        world_size=2,
        host="a",
        pid=1,
        gpus=0,
        backend="gloo",
        launcher="ddpcheck",
        versions={},
    )
    other = msgspec.structs.replace(present, rank=1)
    entries: dict[int, list[Entry]] = {0: [present, Ended("watch")], 1: [other]}
    ended = Testimony(check="sharding/replicated-parameter-drifts", sequence=4)
    waits = Testimony(
        state=State.BUSY, check="watch/script", overran=True, waits_in="all_reduce", sequence=5
    )
    first, second = rank_records(Ranks(entries, {0: ended, 1: waits}), [], "gloo")
    assert (first.last_seen, first.reason) == (None, "came to its script's end without all_reduce")
    assert second.last_seen == LastSeen("watch/script")


@pytest.fixture
def box(tmp_path: Path) -> Path:
    """Return the black box of a rank that is in its second collective."""
    path = tmp_path / "1.box"
    written = BlackBox(path)
    written.enter_check("network/a")
    written.leave_call(written.enter_call("all_reduce SUM float32[3]", "a.py:3"))
    written.enter_call("barrier", "a.py:4")
    return path


def test_the_black_box_tells_the_check_and_the_collective_that_it_is_in(box: Path) -> None:
    seen = testimony_on_files(box, None, State.GONE, "SIGKILL", 2)
    assert (seen.state, seen.ended_by, seen.order) == (State.GONE, "SIGKILL", 2)
    assert (seen.check, seen.waits_in) == ("network/a", "barrier")
    assert [call.what for call in seen.calls] == ["all_reduce SUM float32[3]", "barrier"]


@pytest.mark.parametrize("name", [None, "missing"])
def test_a_rank_that_left_no_files_is_known_by_its_end_alone(
    name: str | None, tmp_path: Path
) -> None:
    file = tmp_path / name if name else None
    seen = testimony_on_files(file, file, State.GONE, "exit code 3", 1)
    assert seen == Testimony(state=State.GONE, ended_by="exit code 3", order=1)


@pytest.mark.parametrize(
    ("state", "stack", "seen"),
    [
        pytest.param(
            State.GONE, "Fatal Python error", (State.GONE, "SIGSEGV"), id="a fatal signal"
        ),
        pytest.param(State.GONE, "", (State.GONE, "SIGSEGV"), id="no stack"),
        pytest.param(State.GONE, DUMP, (State.SILENT, "its GIL was held"), id="it ended itself"),
        pytest.param(State.SILENT, DUMP, (State.SILENT, "its GIL was held"), id="it was asked"),
        pytest.param(
            State.SILENT,
            "",
            (State.SILENT, "its process lives, but none of its threads runs"),
            id="it does not run",
        ),
        pytest.param(State.STOPPED, "", (State.STOPPED, "SIGSEGV"), id="it is stopped"),
    ],
)
def test_the_last_stack_tells_whether_the_process_died_or_could_not_speak(
    state: State, stack: str, seen: tuple[State, str], tmp_path: Path
) -> None:
    file = tmp_path / "1.stack"
    file.write_text(stack)
    told = testimony_on_files(None, file, state, "SIGSEGV", 1)
    assert (told.state, told.ended_by) == seen
    assert told.stack == stack.strip()
