"""A rank comes to the end of the script after fewer backward passes than others make.

Why it matters
    Every backward pass of DistributedDataParallel waits for all ranks. Where each rank reads its
    own files, or filters its own samples, one runs out first and ends; the others wait for it in
    their next backward pass until a timeout, or say "Connection closed by peer", which blames the
    network.

What to do
    Let all ranks agree before each step whether every one has a batch (all_reduce a flag, MIN), cut
    the shards to one length, or train inside of with model.join():. What comes from DataLoaders is
    counted epoch by epoch by data/uneven-epochs.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Location
from ddpcheck.measures.peers import grouped
from ddpcheck.measures.words import listed


class Facts(msgspec.Struct, frozen=True):
    """How many forward and backward passes a rank made, and whether its script came to its end.

    ``averaged`` are the backward passes in which DDP averages: those within no_sync() are any rank's
    own. ``group`` are the ranks of its DDP; ``location`` is where its last backward pass was.
    """

    forwards: int
    backwards: int
    averaged: int
    has_ended: bool
    group: tuple[int, ...] = ()
    joins: bool = False
    has_loader: bool = False
    location: Location | None = None


class Observer:
    """Notes whether ranks may end one by one, and whether they do."""

    def __init__(self, ctx: Context) -> None:
        from ddpcheck.watch.passes import StepPasses

        self._ctx = ctx
        self._passes = StepPasses()
        self.parts = (self._passes,)
        self._facts = Facts(0, 0, 0, has_ended=False)

    def on_fed(self, _feed: object) -> None:
        """Note that a DataLoader has the data."""
        self._change(has_loader=True)

    def on_loss(self, _step: int, _loss: object) -> None:
        """Note the line of the backward pass, and whether it is inside of join()."""
        from ddpcheck.watch.callsite import users_line
        from ddpcheck.watch.replicas import allows_uneven

        ddp = self._passes.ddp
        if ddp is not None:
            joins = self._facts.joins or allows_uneven(ddp)
            self._change(joins=joins, location=users_line())

    def on_ended(self) -> None:
        """Note that the script came to its end."""
        self._change(has_ended=True)

    def facts(self) -> Facts:
        """Return the counts; raises Skip where no script is watched."""
        self._ctx.require_watch()
        if not self._passes.group:
            raise Skip("no model was trained through DistributedDataParallel")
        every = self._passes.total
        counts = {
            "forwards": every.forward,
            "backwards": every.backward,
            "averaged": every.averaged,
        }
        self._change(**counts, group=self._passes.group)
        return self._facts

    def _change(self, **fields: object) -> None:
        self._facts = msgspec.structs.replace(self._facts, **fields)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for the ranks of a group that ended while others went on."""
    groups = grouped({rank: own.group for rank, own in facts.items()})
    found = (_of_group({rank: facts[rank] for rank in ranks}) for ranks in groups.values())
    return [finding for finding in found if finding is not None]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many backward passes the ranks made."""
    counts = {own.averaged for own in facts.values()}
    return f"{' or '.join(map(str, sorted(counts)))} backward passes on a rank"


def _own(facts: Facts) -> int:
    """Return the passes that DDP averages, but those of another model: they had no forward pass."""
    return facts.averaged - max(0, facts.backwards - facts.forwards)


def _of_group(facts: Mapping[int, Facts]) -> Finding | None:
    most = max(facts, key=lambda rank: _own(facts[rank]))
    # A forward pass without a backward pass is one that was skipped.
    short = [
        rank
        for rank, own in sorted(facts.items())
        if own.has_ended and own.forwards == own.backwards and own.averaged < _own(facts[most])
    ]
    if not short or any(own.joins or own.has_loader for own in facts.values()):
        return None
    counts = (f"rank {rank}: {own.averaged}" for rank, own in sorted(facts.items()))
    return Finding(
        title=f"{len(short)} of {len(facts)} ranks ran out of data first",
        message=f"backward passes by rank: {listed(counts)}; the others wait for a rank that came to "
        "the end of the script",
        fix="let all ranks agree before each step whether every one has a batch (all_reduce a flag), "
        "cut the shards to one length, or train inside of model.join()",
        ranks=tuple(short),
        confidence=Confidence.HIGH,
        location=facts[most].location,
    )
