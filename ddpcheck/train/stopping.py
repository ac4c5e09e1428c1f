"""A training that is asked to stop, as a scheduler does that needs the machine, stops at a step.

Not where it is: all ranks agree on a step, write a checkpoint, and leave. Each may be asked at
another moment, and some not at all, so a rank that is asked only says so (see ``loop.train``).
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from threading import Event, Thread, current_thread, main_thread
from typing import Self

from ddpcheck.engine.signals import SignalMail
from ddpcheck.errors import ExitCode

# A step takes no longer than this many of the slowest so far, and this.
STEPS_TO_WAIT = 3
LEAST_WAIT_S = 2.0
LOOK_S = 0.2


class Patience:
    """How long to wait for a step, from how long steps have taken; times in seconds."""

    def __init__(self) -> None:
        self._slowest_s = 0.0
        # Nothing is known of how long the first step takes: it is waited for.
        self._began_s = math.inf

    def step_ended(self, now_s: float) -> None:
        """Count the step that has ended, and wait for the next one."""
        if self._began_s < now_s:
            self._slowest_s = max(self._slowest_s, now_s - self._began_s)
        self._began_s = now_s

    def wait_for_ever(self) -> None:
        """Count what comes next as no step."""
        self._began_s = math.inf

    def is_over(self, now_s: float) -> bool:
        """Return whether the step takes longer than any step may."""
        return now_s - self._began_s > LEAST_WAIT_S + STEPS_TO_WAIT * self._slowest_s


class StopRequest:
    """Whether SIGTERM or SIGINT has come; a context manager.

    Where a rank has died, an elastic agent sends SIGTERM to the others: these wait in a collective
    for it, and no step ends any more. They leave by themselves, or the agent would wait for half a
    minute until it kills them.
    """

    def __init__(self) -> None:
        self._heard = Event()
        self._over = Event()
        self._patience = Patience()
        self._mail: SignalMail | None = None
        self._listener: Thread | None = None

    def __enter__(self) -> Self:
        # Elsewhere, as in a worker of Ray Train, signals are for the program that called.
        if current_thread() is main_thread():
            self._mail = SignalMail()
            self._listener = Thread(target=self._listen, daemon=True, name="ddpcheck stop")
            self._listener.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._listener is not None and self._mail is not None:
            self._mail.wake()
            self._listener.join()
            self._mail.close()

    def asked(self) -> bool:
        """Return whether a request has come; to be called after every step."""
        self._patience.step_ended(time.monotonic())
        return self._heard.is_set()

    @contextmanager
    def unhurried(self) -> Generator[None]:
        """Let what is no step, such as a checkpoint, take as long as it takes."""
        self._patience.wait_for_ever()
        yield
        self._patience.step_ended(time.monotonic())

    def _listen(self) -> None:
        while self._mail is not None and not self._over.is_set():
            self._mail.wait([], LOOK_S)
            if self._mail.read():
                self._heard.set()
            if self._heard.is_set() and self._patience.is_over(time.monotonic()):
                os._exit(ExitCode.INTERRUPTED)
