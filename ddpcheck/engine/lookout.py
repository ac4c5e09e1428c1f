"""What looks on beside the sentinel, and asks no store: that may not answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

# Takes the seconds since the look before.
Look: TypeAlias = Callable[[float], None]
LOOK_S = 0.5
# A look may hang in the kernel, which has locked the memory of a process that it asks for.
CLOSE_S = 5.0


class Lookout:
    """Looks at several things in one thread, twice a second."""

    def __init__(self, looks: Sequence[Look]) -> None:
        self._looks = looks
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ddpcheck lookout", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Look no more."""
        self._over.set()
        self._thread.join(CLOSE_S)

    def _run(self) -> None:
        last = time.monotonic()
        while not self._over.wait(LOOK_S):
            now = time.monotonic()
            # This process may have been at a stop itself, as where a scheduler suspends the job.
            passed_s = min(now - last, 2 * LOOK_S)
            last = now
            for look in self._looks:
                look(passed_s)
