"""Where a thread is: its stack, and whether it waits for other ranks."""

import faulthandler
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

from ddpcheck.engine.neighbours import Neighbour
from ddpcheck.engine.plan import UNBOUNDED_S
from ddpcheck.engine.stacks import answers, shown_waiting_call, stack_of, waiting_call
from ddpcheck.engine.whereabouts import REMEMBERED_S, Whereabouts
from ddpcheck.measures.testimony import State

LONG_S = 60.0


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    """Put out the timer of a check that a test has entered: it would end the tests' own process."""
    yield
    faulthandler.cancel_dump_traceback_later()


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


def test_a_stop_is_remembered_in_the_next_check_and_forgotten_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    where = Whereabouts()
    where.enter("network/a", LONG_S)
    where.note_stop(3.61)
    where.leave()
    assert (where.testimony().stood_s, where.testimony().stood_in) == (3.6, "network/a")
    where.enter("network/b", LONG_S)
    where.note_stop(1.0)
    assert (where.testimony().stood_s, where.testimony().stood_in) == (3.6, "network/a")
    later = time.monotonic() + REMEMBERED_S
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert (where.testimony().stood_s, where.testimony().stood_in) == (0.0, "")


def test_a_script_without_a_deadline_has_faulthandlers_timer_for_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[str] = []

    def armed(*_arguments: object, **_named: object) -> None:
        calls.append("set")

    monkeypatch.setattr(faulthandler, "dump_traceback_later", armed)
    monkeypatch.setattr(faulthandler, "cancel_dump_traceback_later", lambda: calls.append("unset"))
    where = Whereabouts()
    where.enter("watch/script", UNBOUNDED_S)
    where.leave()
    assert calls == []
    where.enter("watch/script", UNBOUNDED_S)
    where.put_off_the_end()  # at an inquest
    where.leave()
    assert calls == ["set", "unset"]


GIL_HELD = """
import ctypes, pathlib, sys, threading, time
from ddpcheck.engine import whereabouts
from ddpcheck.engine.stacks import answer_here
where = whereabouts.Whereabouts()
folder = pathlib.Path(sys.argv[1])
where.keep_files(folder / "0.box", folder / "0.stack")
threading.Thread(target=lambda: (answer_here(), time.sleep(1000)), daemon=True).start()
where.enter("network/a", 0.1)
def hold_the_gil():
    print("ready", flush=True)
    ctypes.PyDLL(None).sleep(1000)
hold_the_gil()
"""


def test_a_process_that_holds_the_gil_shows_its_stack_when_asked(tmp_path: Path) -> None:
    """And goes on: neither the signal nor the answer ends the call that it hangs in."""
    slow = ("-c", GIL_HELD.replace("0.1", "1000"), str(tmp_path))
    with subprocess.Popen([sys.executable, *slow], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            neighbour = Neighbour(process.pid, 0)
            assert neighbour.open()
            neighbour.ask_for_stack()
            stack = tmp_path / "0.stack"
            until = time.monotonic() + LONG_S
            while "hold_the_gil" not in stack.read_text() and time.monotonic() < until:
                time.sleep(0.01)
            assert "hold_the_gil" in stack.read_text()
            assert process.poll() is None
        finally:
            process.kill()


def test_a_process_that_would_not_answer_is_not_asked() -> None:
    with subprocess.Popen(["sleep", "1000"]) as process:
        try:
            assert not answers(process.pid)
            neighbour = Neighbour(process.pid, 0)
            assert neighbour.open()
            neighbour.ask_for_stack()
            assert neighbour.state is State.SILENT
        finally:
            process.kill()


SHOWN = """Current thread 0x00007fbebe8696c0 (most recent call first):
  File "/ddpcheck/engine/sentinel.py", line 87 in _run
  File "/usr/lib/python3.11/threading.py", line 982 in run

Thread 0x00007fbee17bab80 (most recent call first):
  File "/venv/lib/python3.11/site-packages/torch/nn/parallel/distributed.py", line 1775 in _pre_forward
  File "/home/me/train.py", line 40 in main
"""


def test_what_faulthandler_shows_tells_where_the_main_thread_waits() -> None:
    assert shown_waiting_call(SHOWN) == "DistributedDataParallel.pre_forward"
    ddp = SHOWN.index('  File "/venv')
    elsewhere = SHOWN[:ddp] + SHOWN[SHOWN.index('  File "/home') :]
    assert shown_waiting_call(elsewhere) == ""
    assert shown_waiting_call("") == ""


TORCH = "/venv/lib/python3.11/site-packages/torch"
# Captured: FSDP2's full_tensor(), torch 2.13.
WRAPPED = [
    ("_dynamo/eval_frame.py", "nothing"),
    ("_dynamo/eval_frame.py", "__init__"),
    ("_dynamo/eval_frame.py", "__init__"),
    ("_dynamo/decorators.py", "disable"),
    ("_compile.py", "inner"),
    ("_library/custom_ops.py", "backend_impl"),
    ("_ops.py", "redispatch"),
    ("_library/autograd.py", "forward_no_grad"),
    ("_library/autograd.py", "autograd_impl"),
    ("_ops.py", "__call__"),
    ("_library/custom_ops.py", "__call__"),
]


def shown_within(outer: str) -> str:
    """Return what faulthandler shows of a thread that is at work on an operation of ``outer``."""
    wrapped = [f'  File "{TORCH}/{file}", line 1 in {name}' for file, name in WRAPPED]
    return "\n".join(["Current thread 0x00007fbee17bab80:", *wrapped, outer, ""])


def test_what_torch_calls_operations_through_does_not_hide_who_waits() -> None:
    inside = f'  File "{TORCH}/distributed/_functional_collectives.py", line 1405 in wait_tensor'
    assert shown_waiting_call(shown_within(inside)) == "wait_tensor"
    elsewhere = '  File "/home/me/train.py", line 40 in main'
    assert shown_waiting_call(shown_within(f"{elsewhere}\n{inside}")) == ""


def test_a_wait_in_the_line_that_begins_a_transfer_is_of_that(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("dist.isend(gradient, 1).wait()\nwork.wait()\n")
    told = [f'  File "{script}", line {line} in main' for line in (1, 2)]
    head = "Thread 0x01 (most recent call first):\n"
    assert [shown_waiting_call(head + each) for each in told] == ["isend", "wait"]


def test_a_process_that_holds_the_gil_is_ended_and_leaves_its_stack(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", GIL_HELD, str(tmp_path)], timeout=LONG_S, check=False
    )
    assert done.returncode == 1
    stack = (tmp_path / "0.stack").read_text()
    assert stack.startswith("Timeout (")
    assert "hold_the_gil" in stack
