"""Ranks that wait at another port than this one, looked for while it waits for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from ddpcheck.machine.processes import ranks_elsewhere
from ddpcheck.measures.rank_process import RankProcess

# All that come have come by then, as a rule; from then on, the processes of the host are read as
# often. On a host with thousands of them, that takes some 0.1 s.
LOOK_EVERY_S = 2.0
# Who ended before that may have been of the job that was here before this one.
KEPT_S = 5.0


class Strays:
    """What was seen of them, to be looked at until the ranks are complete."""

    def __init__(
        self, environ: Mapping[str, str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._environ = environ
        self._clock = clock
        self._waited_s = 0.0
        self._seen: tuple[RankProcess, ...] = ()
        self._seen_s = 0.0
        self._is_over = False

    def look(self, passed_s: float) -> None:
        """Look again, if it is time to, this many seconds after the call before."""
        self._waited_s += passed_s
        if self._is_over or self._waited_s < LOOK_EVERY_S:
            return
        self._waited_s = 0.0
        if found := ranks_elsewhere(self._environ):
            self._seen, self._seen_s = tuple(found), self._clock()

    def last_seen(self) -> tuple[RankProcess, ...]:
        """Look no more; return who was seen in the last seconds, whether they are there or not."""
        self._is_over = True
        return self._seen if self._clock() - self._seen_s <= KEPT_S else ()
