"""Where a thread is: its stack, and whether it waits for other ranks."""

import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from ddpcheck.engine.whereabouts import Whereabouts, stack_of, waiting_call
from ddpcheck.measures.testimony import State

LONG_S = 60.0


@contextmanager
def held(work: Callable[[threading.Event], object]) -> Generator[FrameType]:
    """Yield the frame of a thread that is inside ``work(release)``."""
    release, inside = threading.Event(), threading.Event()

    def run() -> None:
        inside.set()
        work(release)

    thread = threading.Thread(target=run)
    thread.start()
    inside.wait(LONG_S)
    try:
        yield sys._current_frames()[thread.ident or 0]
    finally:
        release.set()
        thread.join()


def test_a_thread_in_its_own_code_waits_for_nobody() -> None:
    with held(lambda release: release.wait(LONG_S)) as frame:
        assert waiting_call(frame) == ""


def test_the_stack_ends_with_the_latest_call() -> None:
    with held(lambda release: release.wait(LONG_S)) as frame:
        lines = stack_of(frame).splitlines()
    assert "threading.py" in lines[-2] or "threading.py" in lines[-3]


class Tensor:
    """Looks at its caller from inside each of the calls that wait for the device."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def item(self) -> None:
        self.seen.append(waiting_call(sys._getframe(1)))

    tolist = synchronize = wait = item


def test_the_device_that_carries_out_collectives_is_waited_for() -> None:
    tensor = Tensor()
    tensor.item()
    tensor.tolist()
    tensor.synchronize()
    tensor.wait()
    assert tensor.seen == ["item", "tolist", "synchronize", "wait"]


def test_a_rank_between_two_checks_is_not_busy() -> None:
    where = Whereabouts()
    assert where.testimony().state is State.ENDED
    where.enter("network/a", LONG_S)
    assert (where.testimony().state, where.testimony().check) == (State.BUSY, "network/a")
    assert not where.overran
    where.hurry(0.0)
    assert where.overran
    where.extend(LONG_S)
    assert not where.overran
    where.leave()
    assert where.testimony().state is State.ENDED


GIL_HELD = """
import ctypes, pathlib, sys
from ddpcheck.engine import whereabouts
where = whereabouts.Whereabouts()
folder = pathlib.Path(sys.argv[1])
where.keep_files(folder / "0.box", folder / "0.stack")
where.enter("network/a", 0.1)
def hold_the_gil():
    ctypes.PyDLL(None).sleep(1000)
hold_the_gil()
"""


def test_a_process_that_holds_the_gil_is_ended_and_leaves_its_stack(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", GIL_HELD, str(tmp_path)], timeout=LONG_S, check=False
    )
    assert done.returncode == 1
    stack = (tmp_path / "0.stack").read_text()
    assert stack.startswith("Timeout (")
    assert "hold_the_gil" in stack
