"""Every rank holds the whole dataset in its memory, and the host has hardly any left.

Why it matters
    A DistributedSampler gives each rank a part of the indices, not of the data: a dataset that is
    read into memory when it is made is there once for each rank of a host. What fits with one GPU
    is killed for memory (signal 9) with eight.

What to do
    Map the data instead of reading it (np.load(path, mmap_mode="r"), torch.load(path, mmap=True)),
    read each sample when it is asked for, or share one copy: tensor.share_memory_() before the
    ranks are forked, or a file in /dev/shm that rank 0 writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.machine.memory import tightest_memory
from ddpcheck.machine.places import shared_place
from ddpcheck.measures.hosts import by_place, named
from ddpcheck.measures.words import size

if TYPE_CHECKING:
    from ddpcheck.target.live import Trained

# Above that the next peak, such as a checkpoint's, may be the end; below it, all is well so far.
FULL_RATIO = 0.8
# What one copy instead of one for each rank would give back: less would not change much.
SAVING_RATIO = 0.25


class Facts(msgspec.Struct, frozen=True):
    """The most that was used of the memory of a place, and what of it is this rank's dataset.

    ``dataset_bytes`` lie in the process's own memory; they are only counted where the place is
    nearly full, and a sampler gives each rank a part of one dataset.
    """

    host: str
    place: str
    limited_by: str
    limit_bytes: int
    used_bytes: int
    dataset_bytes: int = 0

    @property
    def is_full(self) -> bool:
        """Return whether there is hardly any memory left."""
        return self.used_bytes > FULL_RATIO * self.limit_bytes


class Observer:
    """Looks at the host's memory now and then, and into the dataset when it is full."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._live: Trained | None = None
        self._facts: Facts | None = None

    def on_built(self, live: Trained) -> None:
        """Remember the training, and with it the loader."""
        self._live = live

    def on_step(self, step: int) -> None:
        """Look after the steps 1, 2, 4, 8, ...: memory fills as workers and caches do."""
        if step & (step + 1) == 0:
            self._look()

    def facts(self) -> Facts:
        """Return what was seen; raises Skip where no script is watched, or nothing tells."""
        self._ctx.require_watch()
        self._look()
        if self._facts is None:
            raise Skip("nothing was trained, or this system does not tell how much memory is left")
        return self._facts

    def _look(self) -> None:
        told = tightest_memory()
        if told is None or self._live is None:
            return
        limited_by, room = told
        if self._facts is None or room.used > self._facts.used_bytes:
            place = shared_place(self._ctx.host, limited_by, room.group)
            now = Facts(self._ctx.host, place, limited_by, room.limit, room.used)
            known = self._facts.dataset_bytes if self._facts is not None else 0
            held = known or (_copied_bytes(self._live.loader) if now.is_full else 0)
            self._facts = msgspec.structs.replace(now, dataset_bytes=held)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for each host that is nearly full, and would not be with one copy."""
    return [_finding(ranks) for ranks in by_place(facts) if _is_filled_by_copies(ranks)]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how full the fullest host is."""
    fullest = max(own.used_bytes / own.limit_bytes for own in facts.values())
    return f"{fullest:.0%} of a host's memory used at most"


def _copied_bytes(loader: Any) -> int:
    """Return the bytes of a dataset that torch's or accelerate's sampler deals out to ranks."""
    from ddpcheck.watch.objects import own_bytes

    dealt = (
        getattr(getattr(loader, "sampler", None), "num_replicas", 1),
        getattr(getattr(loader, "batch_sampler", None), "num_processes", 1),
    )
    return own_bytes(loader.dataset) if max(dealt) > 1 else 0


def _is_filled_by_copies(ranks: Mapping[int, Facts]) -> bool:
    limit_bytes = min(own.limit_bytes for own in ranks.values())
    copies = sorted(own.dataset_bytes for own in ranks.values())
    is_full = any(own.is_full for own in ranks.values())
    return is_full and sum(copies[:-1]) > SAVING_RATIO * limit_bytes


def _finding(ranks: Mapping[int, Facts]) -> Finding:
    own = max(ranks.values(), key=lambda each: each.dataset_bytes)
    used_bytes = max(each.used_bytes for each in ranks.values())
    copies = sum(each.dataset_bytes for each in ranks.values())
    return Finding(
        title=f"{len(ranks)} copies of the dataset fill a host's memory",
        message=f"each rank of {named(ranks)} holds up to {size(own.dataset_bytes)} of the dataset, "
        f"{size(copies)} together; {size(used_bytes)} of {size(own.limit_bytes)} that "
        f"{own.limited_by} has are used",
        fix='map the data (np.load(path, mmap_mode="r"), torch.load(path, mmap=True)), read samples '
        "when they are asked for, or share one copy among the ranks",
        ranks=tuple(ranks),
        severity=Severity.WARNING,
        confidence=Confidence.HIGH,
    )
