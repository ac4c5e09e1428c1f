"""Python stacks: of a thread here, or of another process, which is asked for them by a signal.

faulthandler answers that signal in C, so that a process whose GIL is held answers as well.
"""

from __future__ import annotations

import faulthandler
import re
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from traceback import FrameSummary, StackSummary, extract_stack
from types import FrameType
from typing import TextIO

ENGINE = Path(__file__).parent
# Where torch's own code waits for other ranks.
DISTRIBUTED = "torch/distributed/"
DDP = "torch/nn/parallel/distributed.py"
# Calls that return when a collective, or the device that carries it out, is done; first what one rank
# sends to another, and waits for in the line that begins it.
WAITS = ("isend", "irecv", ".wait", ".synchronize", ".item", ".tolist", ".cpu")
BACKWARD = "_engine_run_backward"
# What torch calls its operations through, eleven frames deep at times: they tell nothing of the caller.
WRAPPERS = (
    "torch/_ops.py",
    "torch/_library/",
    "torch/_compile.py",
    "torch/_dynamo/eval_frame.py",
    "torch/_dynamo/decorators.py",
)
# A model is called through so many frames of torch, where it is at work and waits for nobody.
INNERMOST = 6
# A real-time signal that nobody is known to use: SIGUSR1 and SIGUSR2 are the schedulers'.
ASK = signal.SIGRTMIN + 11
# faulthandler's lines: the thread that Python started with is its last one.
THREAD = re.compile(r"^(?:Current t|T)hread 0x.*$", re.MULTILINE)
SHOWN_FRAME = re.compile(r'^  File "(.*)", line (\d+) in (.*)$', re.MULTILINE)


def answer_in(file: TextIO) -> None:
    """Have this process write its stacks there when another one asks; called by the main thread.

    The main thread leaves the signal to others: the call that it hangs in might end by it.
    """
    faulthandler.register(ASK, file=file, all_threads=True)
    signal.pthread_sigmask(signal.SIG_BLOCK, [ASK])


def answer_here() -> None:
    """Let this thread be the one that answers."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [ASK])


def answer_no_more() -> None:
    """Undo ``answer_in``; called by the main thread."""
    faulthandler.unregister(ASK)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [ASK])


def answers(pid: int) -> bool:
    """Return whether a process has a handler for the signal, which would end it otherwise.

    Source: proc_pid_status(5), SigCgt, a mask in hexadecimal.
    """
    with suppress(OSError, StopIteration, ValueError):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        mask = next(line.split()[1] for line in lines if line.startswith("SigCgt:"))
        return bool(int(mask, 16) >> (ASK - 1) & 1)
    return False


def stack_of(frame: FrameType | None) -> str:
    """Return the Python stack of a thread, the latest call last, without ddpcheck's own start."""
    frames = list(extract_stack(frame)) if frame is not None else []
    own = [at for at, each in enumerate(frames[:-1]) if str(ENGINE) in each.filename]
    return "".join(StackSummary.from_list(frames[max(own, default=-1) + 1 :]).format()).rstrip()


def waiting_call(frame: FrameType | None) -> str:
    """Return the collective that a thread waits in, as its innermost frames tell, or ''."""
    return _awaited(extract_stack(frame) if frame is not None else [])


def shown_waiting_call(shown: str) -> str:
    """Return the collective that the main thread waits in, in what faulthandler wrote, or ''."""
    frames = SHOWN_FRAME.findall(THREAD.split(shown)[-1])
    return _awaited([FrameSummary(file, int(line), name) for file, line, name in frames[::-1]])


def _awaited(frames: Sequence[FrameSummary]) -> str:
    telling = [each for each in frames if not any(name in each.filename for name in WRAPPERS)]
    for each in reversed(telling[-INNERMOST:]):
        if each.name == BACKWARD:
            return "backward"
        if DISTRIBUTED in each.filename:
            return each.name
        if each.filename.endswith(DDP):
            return f"DistributedDataParallel.{each.name.strip('_')}"
        if waits := next((word for word in WAITS if f"{word}(" in (each.line or "")), ""):
            return waits.strip(".")
        if "torch" not in Path(each.filename).parts:
            return ""
    return ""
