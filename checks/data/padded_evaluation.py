"""An evaluation counts some samples twice.

Why it matters
    A DistributedSampler, and accelerate's even_batches, make the ranks' parts equally long by
    giving the first samples again. An evaluation that is averaged over all of them counts those
    twice: its result changes with the number of GPUs, and papers have been compared by less.

What to do
    Drop what is beyond the length of the dataset after gathering (accelerate's gather_for_metrics
    does), or give each rank range(rank, len(dataset), world_size) and sum counts, not averages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from ddpcheck.check import Context
from ddpcheck.finding import Confidence, Finding, Location, Severity
from ddpcheck.measures.words import counted, listed

if TYPE_CHECKING:
    from ddpcheck.watch.feeds import Feed


class Pass(msgspec.Struct, frozen=True):
    """One evaluation: the samples that this rank was given, of how many, for how many ranks."""

    location: Location | None
    taken: int
    samples: int
    replicas: int


class Facts(msgspec.Struct, frozen=True):
    """A rank's first evaluation from each loader that shares a dataset out."""

    passes: tuple[Pass, ...]


class Observer:
    """Counts the samples of each iteration that no loss comes of."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._taken: dict[int, int] = {}
        self._trained: set[int] = set()
        self._passes: dict[int, Pass] = {}
        self._fed: Feed | None = None
        self._chosen: Feed | None = None
        self._trimmed: set[int] = set()

    def on_epoch(self, feed: Feed) -> None:
        """Begin to count."""
        self._taken[feed.number] = 0
        self._trained.discard(feed.number)

    def on_indices(self, feed: Feed, indices: object) -> None:
        """Count the samples of a batch, or the one sample where they come one by one."""
        count = len(indices) if isinstance(indices, list | tuple) else 1
        self._taken[feed.number] += count
        self._chosen = feed

    def on_fed(self, feed: Feed) -> None:
        """Note whose batch may be trained on."""
        self._fed = feed

    def on_loss(self, _step: int, _loss: object) -> None:
        """Note that it is."""
        self.on_gradients(_step)

    def on_gradients(self, _step: int) -> None:
        """Note that it is, also where nobody called backward on a loss that is one number."""
        if self._fed is not None:
            self._trained.add(self._fed.number)

    def on_called(self, _call: object) -> None:
        """Note whether accelerate gathers, and drops what came twice."""
        from ddpcheck.watch.callsite import is_inside

        # Of the training, with a collective in each step, nobody needs to know.
        number = self._chosen.number if self._chosen is not None else None
        if number is None or number in self._trained or number in self._trimmed:
            return
        if is_inside("gather_for_metrics", "accelerate"):
            self._trimmed.add(number)

    def on_drained(self, feed: Feed) -> None:
        """Keep what came to its end and was not trained on."""
        if feed.is_shared and feed.samples and feed.number not in self._trained:
            taken = self._taken[feed.number]
            seen = Pass(feed.location, taken, feed.samples, feed.replicas)
            self._passes.setdefault(feed.number, seen)

    def facts(self) -> Facts:
        """Return the evaluations; raises Skip where no script is watched."""
        self._ctx.require_watch()
        told = sorted(self._passes.keys() - self._trimmed)
        return Facts(tuple(self._passes[number] for number in told))


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for each evaluation in which all ranks together had more than all samples."""
    by_loop: dict[str, dict[int, Pass]] = {}
    for rank, own in sorted(facts.items()):
        for each in own.passes:
            by_loop.setdefault(f"{each.location} {each.samples}", {})[rank] = each
    return [_finding(ranks) for ranks in by_loop.values() if _twice(ranks) > 0]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many evaluations were seen."""
    count = max(len(own.passes) for own in facts.values())
    return f"{count} evaluations by shares of a dataset came to their end"


def _twice(ranks: Mapping[int, Pass]) -> int:
    # Several ranks may have the same share: those of a tensor-parallel group.
    first = ranks[min(ranks)]
    mean = sum(each.taken for each in ranks.values()) / len(ranks)
    return round(mean * first.replicas) - first.samples


def _finding(ranks: Mapping[int, Pass]) -> Finding:
    first = ranks[min(ranks)]
    counts = listed(f"rank {rank}: {each.taken}" for rank, each in ranks.items())
    return Finding(
        title=f"an evaluation is given {counted(_twice(ranks), 'sample')} twice",
        message=f"the dataset has {counted(first.samples, 'sample')}, the ranks' parts together "
        f"{first.samples + _twice(ranks)} ({counts}): the first ones are repeated, unless the "
        "script drops them before it averages",
        fix="drop what is beyond the length of the dataset after gathering, or give each rank "
        "range(rank, len(dataset), world_size) and sum counts",
        ranks=tuple(ranks),
        severity=Severity.INFO,
        confidence=Confidence.HIGH,
        location=first.location,
    )
