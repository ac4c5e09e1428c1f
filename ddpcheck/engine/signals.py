"""SIGTERM and Ctrl-C reach a thread that waits for them, whatever the main thread is inside.

Python runs signal handlers in the main thread alone, between two bytecodes: never, while that
is in a collective. What the C-level handler writes to a descriptor, any thread can read.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from types import FrameType

from ddpcheck.engine.descriptors import with_news
from ddpcheck.launch.endings import REQUESTS_TO_END


class SignalMail:
    """Signals that ask this process to end, as they arrive; made in the main thread."""

    def __init__(self) -> None:
        self.asked = ""  # by which the main thread was asked first, as soon as it hears of it
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        for number in REQUESTS_TO_END:
            signal.signal(number, self._hear)
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        # What the user's code forks, loader workers say, ends on SIGTERM as it always would.
        os.register_at_fork(after_in_child=_deliver_as_usual)

    @property
    def descriptor(self) -> int:
        """Return the descriptor that becomes readable with the next signal."""
        return self._reader

    def wait(self, descriptors: list[int], timeout_s: float) -> list[int]:
        """Return which of these descriptors, or of this mail, have news within ``timeout_s``."""
        return with_news([self._reader, *descriptors], timeout_s)

    def read(self) -> str:
        """Return the name of a signal that has come since the last call, or ''.

        What a watched script handles by itself asks nobody else: it may save a checkpoint first.
        """
        try:
            numbers = os.read(self._reader, 64)
        except BlockingIOError:
            return ""
        ours = [each for each in numbers if each in REQUESTS_TO_END and self._is_ours(each)]
        names = [signal.Signals(each).name for each in ours]
        return names[0] if names else ""

    def wake(self) -> None:
        """Let who waits for this mail, in another thread, go on at once."""
        with suppress(BlockingIOError):  # full: it has news enough
            os.write(self._writer, b"\0")

    def close(self) -> None:
        """Let signals mean what they mean to Python, but for those that others handle by now."""
        signal.set_wakeup_fd(-1)
        for number in REQUESTS_TO_END:
            if self._is_ours(number):
                _handle_as_usual(number)

    def _hear(self, number: int, _frame: FrameType | None) -> None:
        """Keep it, and do nothing: the sentinel reads the descriptor."""
        self.asked = self.asked or signal.Signals(number).name

    def _is_ours(self, number: int) -> bool:
        return signal.getsignal(number) == self._hear


def _deliver_as_usual() -> None:
    signal.set_wakeup_fd(-1)
    for number in REQUESTS_TO_END:
        _handle_as_usual(number)


def _handle_as_usual(number: int) -> None:
    """Let it mean what it means to Python: Ctrl-C raises, and loader workers leave without a word."""
    usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    signal.signal(number, usual)
