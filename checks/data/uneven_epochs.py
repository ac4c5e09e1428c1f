"""Ranks have different numbers of batches in an epoch.

Why it matters
    Every backward pass of DistributedDataParallel waits for all ranks. A rank that runs out first
    goes on to its next epoch, whose gradients are averaged with those of another's last batches,
    or to another collective, or leaves; at the end gloo breaks it off, or somebody waits for ever.

What to do
    Give every rank as many batches: a DistributedSampler, drop_last=True, shards of one length;
    or train inside of with model.join():.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Location
from ddpcheck.measures.epochs import Epoch, Feeding
from ddpcheck.measures.words import listed


class Facts(msgspec.Struct, frozen=True):
    """A rank's loaders by their order of first use; ``group`` are the ranks of its DDP."""

    feeds: tuple[Feeding, ...]
    group: tuple[int, ...] = ()
    joins: bool = False


class Observer:
    """Counts the batches of each loader, epoch by epoch."""

    is_kept = True

    def __init__(self, ctx: Context) -> None:
        from ddpcheck.watch.epochs import Epochs

        self._ctx = ctx
        self._epochs = Epochs()
        self.parts = (self._epochs,)

    def facts(self) -> Facts:
        """Return the counts; raises Skip where no script is watched."""
        self._ctx.require_watch()
        if not self._epochs.group:
            raise Skip("no model was trained through DistributedDataParallel")
        return Facts(self._epochs.told(), self._epochs.group, self._epochs.joins)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for the first epoch that some ranks ended with fewer batches than others."""
    groups = sorted({own.group for own in facts.values() if not own.joins})
    return [f for group in groups for f in _of_group({r: facts[r] for r in group if r in facts})]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many epochs came to their end."""
    over = sum(epoch.is_over for feed in next(iter(facts.values())).feeds for epoch in feed.epochs)
    return f"{over} epochs came to their end"


def _of_group(facts: Mapping[int, Facts]) -> list[Finding]:
    # Who is through with its epoch may be in another loader already, of its evaluation.
    enough = any if len({len(own.feeds) for own in facts.values()}) == 1 else all
    for abreast in zip(*(own.feeds for own in facts.values()), strict=False):
        if enough is all and len({feed.location for feed in abreast}) > 1:
            return []
        count = 0 if any(feed.cycles for feed in abreast) else min(len(f.epochs) for f in abreast)
        for number in range(count):
            epochs = {r: f.epochs[number] for r, f in zip(facts, abreast, strict=True)}
            most = max(each.batches for each in epochs.values())
            # One that is not over may have more to come.
            short = [r for r, each in epochs.items() if each.is_over and each.batches < most]
            if short and enough(each.is_trained for each in epochs.values()):
                return [_finding(tuple(short), number, epochs, abreast[0].location)]
    return []


def _finding(
    short: tuple[int, ...], number: int, epochs: Mapping[int, Epoch], at: Location | None
) -> Finding:
    ends = {True: "", False: " and on"}
    left_out = {r: f", {e.fetched - e.batches} left out" for r, e in epochs.items() if e.is_over}
    left_out = {
        r: told for r, told in left_out.items() if epochs[r].fetched > epochs[r].batches + 1
    }
    counts = listed(
        f"rank {r}: {e.batches}{ends[e.is_over]}{left_out.get(r, '')}" for r, e in epochs.items()
    )
    return Finding(
        title=f"ranks have different numbers of batches in epoch {number}",
        message=f"batches by rank: {counts}; backward passes pair off wrongly from there",
        fix="give every rank as many batches (DistributedSampler, drop_last=True, shards of one "
        "length), or train inside of model.join()"
        + ("; leave a batch out on all ranks together, or on none" if left_out else ""),
        ranks=short,
        confidence=Confidence.HIGH,
        location=at,
    )
