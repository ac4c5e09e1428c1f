"""Ranks train on the same batches.

Why it matters
    Data-parallel ranks that see the same data compute the same gradient several times: the job
    costs as much as many GPUs, and trains like one. An epoch takes as long as on one GPU, and
    nothing says so. The loader lacks a DistributedSampler, or a shard of its own.

What to do
    Give the loader sampler=DistributedSampler(dataset) and no shuffle of its own, or let each rank
    read its own part. Ranks of one tensor-parallel group do need the same batches: make DDP's
    process_group that of the data-parallel axis.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Location, Severity
from ddpcheck.measures.peers import grouped
from ddpcheck.measures.words import spans

if TYPE_CHECKING:
    from ddpcheck.target.live import Trained
    from ddpcheck.watch.batches import Keepsake
    from ddpcheck.watch.feeds import Feed

# One batch may be the same by chance, or on purpose: to see whether a model can learn it.
LEAST_BATCHES_COUNT = 2
KEPT_BATCHES_COUNT = 16


class Facts(msgspec.Struct, frozen=True):
    """A digest of each of the first batches that were trained on, and of what went into the model.

    ``group`` are the ranks among which DDP averages this rank's gradients, empty without DDP;
    ``loads`` is whether the batches come from a DataLoader: others may be made up for a test.
    ``inputs`` are empty where they were not seen.
    """

    batches: tuple[str, ...]
    inputs: tuple[str, ...] = ()
    group: tuple[int, ...] = ()
    loads: bool = True
    location: Location | None = None


class Observer:
    """Keeps the beginnings of batches that a backward pass followed on."""

    def __init__(self, ctx: Context) -> None:
        del ctx
        self._group: tuple[int, ...] = ()
        self._loads = False
        self._fed: Feed | None = None
        self._trained: Feed | None = None
        self._waiting: list[tuple[Feed | None, Keepsake]] = []
        self._batches: list[Keepsake] = []
        self._inputs: list[Keepsake] = []

    def on_built(self, live: Trained) -> None:
        """Note among which ranks gradients are averaged."""
        from torch.distributed import get_process_group_ranks
        from torch.utils.data import DataLoader

        self._loads = isinstance(live.loader, DataLoader)
        if live.ddp is not None:
            self._group = tuple(sorted(get_process_group_ranks(live.ddp.process_group)))

    def on_fed(self, feed: Feed) -> None:
        """Remember whose batch comes next."""
        self._fed, self._loads = feed, True

    def on_batch(self, _step: int, batch: Any) -> None:
        """Look at a batch; whether it is trained on is seen later."""
        from ddpcheck.watch.batches import Keepsake

        if len(self._batches) < KEPT_BATCHES_COUNT:
            # Of an evaluation before the training, the last ones do.
            self._waiting = self._waiting[-KEPT_BATCHES_COUNT:]
            self._waiting.append((self._fed, Keepsake(batch)))

    def on_inputs(self, _step: int, inputs: Any) -> None:
        """Look at what goes into the model: a rank may take its part of a batch of all."""
        from ddpcheck.watch.batches import Keepsake

        if len(self._inputs) < KEPT_BATCHES_COUNT:
            self._inputs.append(Keepsake(inputs))

    def on_loss(self, _step: int, _loss: object) -> None:
        """Keep what has come since the last backward pass, of the loader that came last."""
        self._batches += [kept for feed, kept in self._waiting if feed is self._fed]
        self._waiting.clear()
        self._trained = self._trained or self._fed

    def facts(self) -> Facts:
        """Return what was seen; raises Skip where no batch was trained on that tells anything."""
        batches = tuple(kept.digest() for kept in self._batches[:KEPT_BATCHES_COUNT])
        if not any(batches):
            raise Skip("no batch of a DataLoader was trained on that could be compared")
        return Facts(
            batches=batches,
            inputs=tuple(kept.digest() for kept in self._inputs),
            group=self._group,
            loads=self._loads,
            location=self._trained.location if self._trained else None,
        )


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for the ranks of a group that train on equal batches, one by one."""
    found: list[Finding] = []
    for group, members in grouped({rank: own.group for rank, own in facts.items()}).items():
        count = min(len(facts[rank].batches) for rank in members)
        seen = min(len(facts[rank].inputs) for rank in members)
        alike = grouped(
            {rank: (facts[rank].batches[:count], facts[rank].inputs[:seen]) for rank in members}
        )
        for (batches, _), ranks in alike.items():
            if len(ranks) > 1 and len(set(batches) - {""}) >= LEAST_BATCHES_COUNT:
                # Where only some share, they may be ranks of one tensor-parallel group.
                is_whole = len(ranks) == len(members) and bool(group)
                is_sure = is_whole and all(facts[rank].loads for rank in ranks)
                found.append(_finding(ranks, facts, count, is_sure=is_sure))
    return found


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many batches were compared."""
    count = min(len(own.batches) for own in facts.values())
    return f"the first {count} batches compared on {len(facts)} rank(s)"


def _finding(ranks: list[int], facts: Mapping[int, Facts], count: int, *, is_sure: bool) -> Finding:
    return Finding(
        title=f"{len(ranks)} ranks train on the same batches",
        message=f"the first {count} batches are equal bit by bit on ranks {spans(ranks)}"
        + (", among which DDP averages gradients" if is_sure else ", which may be meant"),
        fix="give the loader sampler=DistributedSampler(dataset), or let each rank read a part of "
        "its own",
        ranks=tuple(ranks),
        severity=Severity.ERROR if is_sure else Severity.INFO,
        confidence=Confidence.HIGH if is_sure else Confidence.LOW,
        location=facts[ranks[0]].location,
    )
