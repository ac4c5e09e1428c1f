"""Where the host's time goes in each step: in loaders, in waiting for others, in work of its own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from mmap import mmap
from struct import Struct
from typing import TYPE_CHECKING

import torch
from torch.utils.data import get_worker_info

from ddpcheck.machine.core_waits import CoreWaits
from ddpcheck.measures.blocks import Block, in_blocks
from ddpcheck.watch.callsite import users_line
from ddpcheck.watch.own_work import OwnWork

if TYPE_CHECKING:
    from ddpcheck.finding import Location
    from ddpcheck.target.live import Trained
    from ddpcheck.watch.feeds import Feed
    from ddpcheck.watch.meetings import Called

BACKWARD = "backward"  # as ``hooks`` names it
# The first steps start workers, fill caches, and compile.
WARM_STEPS = 3
KEPT_STEPS = 2000
KEPT_FEEDS = 8
KEPT_WORKERS = 32
# What a worker has done: the seconds, and the batches.
WORK = Struct("<dq")


class Work:
    """How long workers take for a batch, which tells how many they could hand over.

    A rank that waits for its loader may have a loader like the others', only a little behind: theirs
    have batches ready while it is waited for. Workers that were not forked tell nothing.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        # Anonymous and shared: the workers that are forked later write to it.
        self._memory = mmap(-1, WORK.size * KEPT_FEEDS * KEPT_WORKERS)
        self._newest = 0
        self._began = 0.0

    def on_epoch(self, feed: Feed) -> None:
        """Note whose workers are forked next."""
        self._newest = feed.number

    def on_sampling(self) -> None:
        """Begin to fetch a batch."""
        self._began = self._clock()

    def on_sampled(self, _indices: object) -> None:
        """Add what it took, in a worker."""
        worker = get_worker_info()
        if worker is not None and worker.id < KEPT_WORKERS and self._newest < KEPT_FEEDS:
            at = WORK.size * (self._newest * KEPT_WORKERS + worker.id)
            seconds, count = WORK.unpack_from(self._memory, at)
            took_s = self._clock() - self._began
            WORK.pack_into(self._memory, at, seconds + took_s, count + 1)

    def batch_s(self, feed: Feed) -> float:
        """Return the mean seconds of a worker for a batch; 0 where none was seen."""
        if feed.number >= KEPT_FEEDS:
            return 0.0
        begin = WORK.size * feed.number * KEPT_WORKERS
        seen = list(WORK.iter_unpack(self._memory[begin : begin + WORK.size * KEPT_WORKERS]))
        count = sum(count for _, count in seen)
        return float(sum(seconds for seconds, _ in seen)) / count if count else 0.0


class Pace:
    """An observer of the steps of a script, from the end of one to the end of the next.

    What a loader takes while the GPU is still at work costs nobody anything, and is left out.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.work = Work(clock)
        self._waits = CoreWaits()
        self._on_gpu = self._is_spread = False
        self._own = OwnWork(clock)
        self._began: float | None = None  # when the step did
        self._asked: float | None = None  # later by what collectives take in the loader
        self._waiting_since = 0.0
        self._mark: torch.cuda.Event | None = None
        self._steps: list[Block] = []
        self._count = 0
        self._by_feed: dict[Feed, float] = defaultdict(float)
        self.forward: Location | None = None
        self.backward: Location | None = None
        self._has_async = False
        self._loader_s, self._fetches = 0.0, 0

    @property
    def own_is_sure(self) -> bool:
        """Return whether each wait is seen.

        It is not on a GPU, for a collective that is awaited later, or for those of a DTensor.
        """
        return not (self._on_gpu or self._has_async or self._is_spread)

    @property
    def core_waits(self) -> float:
        """Return which part of the time so far may have been lost by waiting for a core."""
        return self._waits.share

    def on_built(self, live: Trained) -> None:
        """Note what the model is on."""
        self._on_gpu = live.device.startswith("cuda")
        self._is_spread = any(hasattr(each, "placements") for each in live.module.parameters())

    def on_asked(self, _feed: Feed) -> None:
        """Begin to wait for a batch."""
        if self._on_gpu:
            self._mark = torch.cuda.Event()
            self._mark.record()
        self._asked = self._waiting_since = self._clock()

    def on_fed(self, feed: Feed) -> None:
        """Note how long the batch took."""
        if self._asked is None:
            return
        now = self._clock()
        took_s = now - self._asked
        self._asked = None
        self._fetches += 1
        self._own.leave_out(now - self._waiting_since)
        if self._mark is None or self._mark.query():
            self._loader_s += took_s
            self._by_feed[feed] += took_s

    def on_drained(self, _feed: Feed) -> None:
        """Note that there was no batch."""
        self._asked = None

    def on_called(self, call: Called) -> None:
        """Leave out what a collective took: it may have been a wait for others."""
        self._has_async |= call.is_async
        if self._asked is not None:
            self._asked += call.took_s
        self._own.leave_out(call.took_s)
        if call.name == BACKWARD:
            self._own.goes_back()

    def on_entered(self, took_s: float) -> None:
        """Leave out what DDP does before a forward pass: rank 0's buffers may have to come first."""
        self._own.leave_out(took_s)

    def on_inputs(self, _step: int, _inputs: object) -> None:
        """Note that the model is called: what was done before, it was done before the model."""
        self._own.goes_in()
        if self._count == WARM_STEPS:
            self.forward = users_line()

    def on_loss(self, _step: int, _loss: object) -> None:
        """Note the line of the backward pass."""
        if self._count == WARM_STEPS:
            self.backward = users_line()

    def on_step(self, _step: int) -> None:
        """Keep the step that ends."""
        now = self._clock()
        before_s, inside_s, after_s = self._own.ended()
        if self._began is not None:
            self._count += 1
            if WARM_STEPS < self._count <= WARM_STEPS + KEPT_STEPS:
                told = (self._loader_s, before_s, now - self._began, self._fetches)
                self._steps.append(Block(*told, inside_s, after_s))
        self._began = now
        self._loader_s, self._fetches = 0.0, 0

    def blocks(self) -> tuple[Block, ...]:
        """Return the mean steps, block by block."""
        return in_blocks(self._steps)

    @property
    def loop(self) -> Location | None:
        """Return the line that asks for the batches which took the most time."""
        slowest = self._slowest
        return slowest.location if slowest else None

    def batch_s(self, workers: int) -> float:
        """Return how long that loader needs for a batch if nobody waits; 0 where it is not known."""
        slowest = self._slowest
        if slowest is None:
            return 0.0
        fetches = max(1, sum(each.fetches for each in self._steps))
        own_s = sum(each.loader_s for each in self._steps) / fetches
        return round(self.work.batch_s(slowest) / workers if workers else own_s, 5)

    @property
    def _slowest(self) -> Feed | None:
        return max(self._by_feed, key=lambda feed: self._by_feed[feed], default=None)
