"""A thread beside the rank's work: it tells when a check overruns, and ends the process."""

from __future__ import annotations

import faulthandler
import os
import sys
import tempfile
import threading
import time

from ddpcheck.engine.channel import ENDED, RAISED, Channel, End
from ddpcheck.engine.entries import Stuck
from ddpcheck.errors import ExitCode

BEAT_S = 0.5
# After the verdict a rank has this long to leave by itself: it may close NCCL, or be stuck.
LEAVE_S = 1.5
# Once a rank has raised, the others' checks end within this time or will not end.
RAISED_GRACE_S = 3.0
# Past its deadline plus this, a process whose GIL is held is ended by faulthandler's own thread.
LAST_RESORT_S = 10.0


class Whereabouts:
    """What the rank's main thread is doing, and until when it may."""

    def __init__(self) -> None:
        self.check = ""
        self.until = float("inf")
        self.retired = threading.Event()

    def enter(self, check: str, deadline_s: float) -> None:
        """Note that the main thread starts on ``check``."""
        self.check, self.until = check, time.monotonic() + deadline_s
        faulthandler.dump_traceback_later(deadline_s + LAST_RESORT_S, exit=True)

    @property
    def busy(self) -> bool:
        """Return whether the main thread is in a check."""
        return self.until < float("inf")

    def hurry(self, grace_s: float) -> None:
        """Allow the check that runs now no more than ``grace_s`` from here on."""
        self.until = min(self.until, time.monotonic() + grace_s)

    def leave(self) -> None:
        """Note that the check has ended."""
        self.until = float("inf")
        faulthandler.cancel_dump_traceback_later()

    def retire(self) -> None:
        """Note that the main thread has heard the verdict and is leaving."""
        self.retired.set()


class Sentinel:
    """Watches the main thread through ``whereabouts``, with a store client of its own."""

    def __init__(self, channel: Channel, seat: int, whereabouts: Whereabouts) -> None:
        self._thread = threading.Thread(target=self._run, name="ddpcheck sentinel", daemon=True)
        self._channel = channel
        self._seat = seat
        self._where = whereabouts
        self._told = ""

    def start(self) -> None:
        """Watch in a thread of its own."""
        self._thread.start()

    def join(self) -> None:
        """Wait until the thread, told by ``Whereabouts.retire``, has ended.

        A thread that is inside the store when the interpreter ends would abort the process.
        """
        self._thread.join()

    def _run(self) -> None:
        try:
            code = self._watch()
        except RuntimeError:
            # The store is gone, so no verdict can be heard any more.
            code = ExitCode.INCOMPLETE
        if not self._where.retired.wait(LEAVE_S):
            sys.stdout.flush()
            os._exit(code)

    def _watch(self) -> int:
        while not self._where.retired.wait(BEAT_S):
            if self._channel.has(ENDED):
                return self._channel.read_message(ENDED, End).exit_code
            if self._where.busy and self._channel.has(RAISED):
                self._where.hurry(RAISED_GRACE_S)
            check = self._where.check
            if time.monotonic() > self._where.until and self._told != check:
                self._told = check
                self._channel.tell(f"stuck/{self._seat}", [Stuck(check, stacks())])
        return ExitCode.OK


def stacks() -> str:
    """Return the Python stacks of all threads, the latest call first."""
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file=file, all_threads=True)
        file.seek(0)
        return file.read()
