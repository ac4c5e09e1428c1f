"""How a process leaves in which ddpcheck alone has used torch."""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
from contextlib import suppress
from typing import NoReturn


def leave(code: int) -> NoReturn:
    """End this process with that exit code, without taking the interpreter apart.

    A thread of gloo's lets go of a call's tensors when it comes to it, after the call has ended.
    One that finds Python on its way out aborts the process (torch 2.13: "terminate called without
    an active exception"), and torchrun then tells of a failed rank. What is registered with
    ``atexit`` is run; threads are not waited for.
    """
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # nobody reads it, or there is none
            stream.flush()
    with suppress(OSError):
        ctypes.CDLL(None).fflush(None)  # what NCCL has written
    os._exit(code)
