"""Gradients are averaged among a part of the ranks that train one model.

Why it matters
    With a process group of one host's ranks, the wrong axis of a mesh, or without the axis of
    context parallelism, each group keeps its own replicas alike, and groups go apart from the same
    start. Nothing raises, and the checkpoint is what one group became.

What to do
    Give DistributedDataParallel or fully_shard the group or mesh of all ranks that see other
    batches, or other parts of one: replicate and shard, data and context parallel axes together.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import TYPE_CHECKING

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Location, Severity
from ddpcheck.measures.drift import come_together
from ddpcheck.measures.words import listed, spans

if TYPE_CHECKING:
    from ddpcheck.target.live import Trained
    from ddpcheck.watch.groups_apart import StartAndEnd

Ranks = tuple[int, ...]
FIX = "average over all ranks that see other batches, or other parts of one, with one group or mesh"


class Facts(msgspec.Struct, frozen=True):
    """A rank's parameters before and after, as digests by name: those that were random at first.

    ``group`` are the ranks among which its gradients are averaged. ``links`` are ranks that share a
    pass of one model, ``losses`` the first ones; ``replicas`` is among how many its sampler deals.
    """

    group: Ranks
    before: dict[str, str]
    after: dict[str, str]
    steps: int
    norms: tuple[str, ...] = ()
    links: list[Ranks] = []
    losses: tuple[float, ...] = ()
    replicas: int = 1
    location: Location | None = None


class Observer:
    """Digests what is trained, where not all ranks are known to average."""

    def __init__(self, ctx: Context) -> None:
        from ddpcheck.watch.averaging import Averaging
        from ddpcheck.watch.by_hand import ByHand
        from ddpcheck.watch.losses import Losses
        from ddpcheck.watch.samplers import Shares

        self._ctx = ctx
        self._held: StartAndEnd | None = None
        self.parts = (Averaging(), ByHand(), Losses(), Shares())

    def on_built(self, live: Trained) -> None:
        """Digest the start."""
        from ddpcheck.watch.groups_apart import StartAndEnd

        if self._ctx.watches and len(self.parts[0].ranks) < self._ctx.world_size:
            self._held = StartAndEnd(live)

    def on_step(self, _step: int) -> None:
        """Keep what tells whether groups come together again, unless all ranks are one."""
        if len(self.parts[1].ranks) == self._ctx.world_size:
            self._held = None
        if self._held is not None:
            self._held.note()

    def facts(self) -> Facts:
        """Return the digests; raises Skip where all ranks average together, or none do."""
        self._ctx.require_watch()
        averaging, by_hand, losses, shares = self.parts
        group = averaging.ranks or by_hand.ranks
        if self._held is None or not 1 < len(group) < self._ctx.world_size:
            raise Skip("gradients were not averaged among a part of the ranks")
        if self._held.is_split_beyond(group):
            raise Skip("the model is split among more ranks than those that average")
        taken = [share.replicas for share in shares.taken()]
        return Facts(
            *(group, *self._held.told()),
            links=by_hand.links,
            losses=losses.read(),
            replicas=max(taken, default=1),
            location=by_hand.line or self._held.location,
        )


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for the first two groups that go apart from the same start."""
    groups = sorted({own.group for own in facts.values()})
    for one, other in combinations(groups, 2):
        pairs = list(zip(one, other, strict=False))
        told = all(rank in facts for pair in pairs for rank in pair)
        if len(one) == len(other) and told and not set(one) & set(other):
            names = [_apart(facts[a], facts[b]) for a, b in pairs]
            if all(names):
                return [_finding(facts, one, other, names[0])]
    return []


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return the groups."""
    groups = sorted({own.group for own in facts.values()})
    return (
        f"{len(groups)} groups average apart: {listed([f'ranks {spans(own)}' for own in groups])}"
    )


def _apart(one: Facts, other: Facts) -> list[str]:
    """Return the parameters that were alike at first and are not in the end, if these are all."""
    if one.steps != other.steps or come_together({0: one.norms, 1: other.norms}):
        return []
    alike = [name for name, own in one.before.items() if other.before.get(name) == own]
    apart = [name for name in alike if other.after.get(name) != one.after.get(name)]
    return apart if len(apart) == len(alike) else []


def _finding(facts: Mapping[int, Facts], one: Ranks, other: Ranks, names: list[str]) -> Finding:
    first, second = facts[one[0]], facts[other[0]]
    is_dealt = min(first.replicas, second.replicas) > len(one)
    # Ranks with parts of a sequence have losses of their own; those that split a model have one, or
    # only the last stage has.
    have_own = bool(first.losses and second.losses) and first.losses[0] != second.losses[0]
    is_linked = have_own and any(
        set(link) & set(one) and set(link) & set(other) for link in (*first.links, *second.links)
    )
    why = "; a DistributedSampler deals one dataset to all of them" * is_dealt
    why += "; they share passes of one model" * is_linked
    is_sure = is_dealt or is_linked
    return Finding(
        title=f"gradients are averaged among ranks {spans(one)}, and apart among ranks {spans(other)}",
        message=f"{names[0]} is the first of {len(names)} parameters that were the same on both at first, "
        f"and differ after {first.steps} steps{why or ', which may be meant: several trainings in one job'}",
        fix=FIX,
        ranks=tuple(sorted((*one, *other))),
        severity=Severity.WARNING if is_sure else Severity.INFO,
        confidence=Confidence.MEDIUM if is_sure else Confidence.LOW,
        location=first.location,
        evidence={"parameter": names[0]},
    )
