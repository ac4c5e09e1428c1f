"""How long a process waited for a core: what others that run there have cost its measurements.

Source: Documentation/scheduler/sched-stats.rst of Linux: /proc/<pid>/task/<tid>/schedstat has the
nanoseconds that a thread was on a core, and those that it was runnable and waited for one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

OWN_THREADS = Path("/proc/self/task")
# The main thread, those of gloo or NCCL, and those of an operation do what is timed. Threads that
# Python has started beside it do not, such as ddpcheck's own, nor does torch's store.
STORE = "pt_tcpstore"


class CoreWaits:
    """Counts from when it is made."""

    def __init__(
        self, threads: Path = OWN_THREADS, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._threads = threads
        self._clock = clock
        self._before = _told_s(threads)
        self._began_s = clock()

    @property
    def share(self) -> float:
        """Return which part of the time since then may have been lost by waiting for a core.

        That is no more than the threads that are timed have waited, and no more than the part that
        they waited of the time that they wanted a core. It is 0 where the kernel tells nothing.
        """
        passed_s = self._clock() - self._began_s
        now = _told_s(self._threads)
        ran_s, waited_s = (after - then for after, then in zip(now, self._before, strict=True))
        if ran_s < 0 or waited_s <= 0 or passed_s <= 0:
            return 0.0
        return round(min(waited_s / (ran_s + waited_s), waited_s / passed_s), 3)


def _told_s(threads: Path) -> tuple[float, float]:
    """Return the seconds that the threads that are timed were on a core, and waited for one."""
    main = threading.main_thread()
    aside = {str(each.native_id) for each in threading.enumerate() if each is not main}
    ran = waited = 0
    for thread in threads.glob("[0-9]*"):
        # It may have ended meanwhile.
        with suppress(OSError, ValueError):
            if thread.name in aside or (thread / "comm").read_text().startswith(STORE):
                continue
            on_core, in_queue, _ = map(int, (thread / "schedstat").read_text().split())
            ran, waited = ran + on_core, waited + in_queue
    return ran / 1e9, waited / 1e9
