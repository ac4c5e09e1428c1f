"""Ranks that wait at another port than this one, looked for while it waits for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ddpcheck.machine.processes import ranks_elsewhere
from ddpcheck.measures.rank_process import RankProcess

# All that come have come by then, as a rule; from then on, the processes of the host are read as
# often. On a host with thousands of them, that takes some 0.1 s.
LOOK_EVERY_S = 2.0
# Who was seen once, and ended before that, may be the last of the job that was here before.
KEPT_S = 5.0


@dataclass
class Sighting:
    """One of them, and when it was seen first and last, on a clock of seconds."""

    rank: RankProcess
    first_s: float
    last_s: float


class Strays:
    """What was seen of them, to be looked at until the ranks are complete."""

    def __init__(
        self, environ: Mapping[str, str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._environ = environ
        self._clock = clock
        self._waited_s = 0.0
        self._seen: dict[int, Sighting] = {}
        self._is_over = False

    def look(self, passed_s: float) -> None:
        """Look again, if it is time to, this many seconds after the call before."""
        self._waited_s += passed_s
        if self._is_over or self._waited_s < LOOK_EVERY_S:
            return
        self._waited_s = 0.0
        now_s = self._clock()
        for each in ranks_elsewhere(self._environ):
            self._seen.setdefault(each.pid, Sighting(each, now_s, now_s)).last_s = now_s

    def seen(self) -> tuple[RankProcess, ...]:
        """Look no more; return who waited beside this rank, or did so in the last seconds."""
        self._is_over = True
        now_s = self._clock()
        return tuple(
            each.rank
            for each in list(self._seen.values())
            if each.last_s > each.first_s or now_s - each.last_s <= KEPT_S
        )
