"""The product's leader beside a simulated rank 0, with notes of what each of its announcements took."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import psutil
from simulated_ranks import SimulatedRank

from ddpcheck.engine.announcements import ASSIGNMENT
from ddpcheck.engine.channel import Channel
from ddpcheck.engine.leader import Leader
from ddpcheck.launch.host import ENDED
from ddpcheck.launch.stores import Store


class Mark(NamedTuple):
    """What the leader has taken when it announces something; ``store_s`` is the store's CPU time."""

    what: str
    at: float
    leader_s: float
    store_s: float
    calls: int


@dataclass
class Led:
    """What the leader's process measured."""

    marks: list[Mark] = field(default_factory=list[Mark])
    memory_mib: float = 0.0
    verdict: str = ""
    reasons: Sequence[str] = ()


class Counting:
    """A store that counts how often it is called."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.calls = 0

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._store, name)

        def call(*arguments: Any) -> Any:
            self.calls += 1
            return method(*arguments)

        return call


class LeadersChannel(Channel):
    """Notes what has been taken by each announcement that ends something."""

    def __init__(self, store: Store, host: psutil.Process, led: Led) -> None:
        self._counting = Counting(store)
        super().__init__(cast("Store", self._counting))
        self._host = host
        self._led = led
        self.mark("began")

    def mark(self, what: str) -> None:
        """Note what has been taken so far."""
        spent = self._host.cpu_times()
        store_s = spent.user + spent.system
        own_s = time.thread_time()
        mark = Mark(what, time.monotonic(), own_s, store_s, self._counting.calls)
        self._led.marks.append(mark)

    def announce(self, key: str, message: object) -> None:
        """Announce, and note it."""
        super().announce(key, message)
        if key in (ASSIGNMENT, ENDED) or key.startswith("decision/"):
            self.mark(key.removeprefix("decision/"))


class LeadingRank(SimulatedRank):
    """Rank 0, which leads."""

    leader: Leader

    def leads(self) -> None:
        """Lead."""
        self.leader.start()
