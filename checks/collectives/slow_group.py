"""The ranks of one host, or one rank of every host, work together more slowly than others.

Why it matters
    A host whose NVLinks, PCI Express switch or memory are slow holds up every collective of the
    job, and so does one network rail: the cards of the same place in all hosts, and their switch.
    Two ranks at a time may not show it; all at once do.

What to do
    When a host is named: compare nvidia-smi nvlink -s, nvidia-smi topo -m and its load with the
    other hosts, or take it out of the job. When a rail is named: look at these ranks' network
    cards and the switch that joins them.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.measures.disjoint_groups import Group, SlowGroup, Split, slow_groups
from ddpcheck.measures.words import listed, spans
from ddpcheck.network.roster import place_of

ID = "collectives/slow-group"
# As for pairs of ranks, see slow_link.py: cores that strangers use, too, are not alike.
LEAST_RATIO = {"nccl": 0.5, "gloo": 0.2}


class Facts(msgspec.Struct, frozen=True):
    """A rank's host, and how fast each of its groups was."""

    host: str
    backend: str
    groups: tuple[Group, ...]


def probe(ctx: Context) -> Facts:
    """Time an all-reduce in each host at once, then across all hosts."""
    ctx.require_group()
    if ctx.world_size == 1:
        raise Skip("there is no other rank")
    from ddpcheck.collectives.agreement import agreement
    from ddpcheck.collectives.disjoint import timed_groups

    place = ctx.machine if ctx.on_gpu else place_of(ctx.host)
    return Facts(ctx.host, ctx.backend, timed_groups(ctx, place, agreement(ctx, ID)))


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for each group that is slower than its like."""
    limit = LEAST_RATIO[next(iter(facts.values())).backend]
    slow = slow_groups({rank: own.groups for rank, own in facts.items()}, limit)
    return [_finding(each, facts, limit) for each in slow]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many groups of each kind were compared."""
    groups = {(each.split, each.ranks) for own in facts.values() for each in own.groups}
    counts = {split: sum(1 for own, _ in groups if own is split) for split in Split}
    return f"{counts[Split.HOSTS]} hosts and {counts[Split.RAILS]} rails across them compared"


def _finding(slow: SlowGroup, facts: Mapping[int, Facts], limit: float) -> Finding:
    hosts = listed(dict.fromkeys(facts[rank].host for rank in slow.ranks if rank in facts))
    is_host = slow.split is Split.HOSTS
    who = f"host {hosts}" if is_host else f"the rail of rank {spans(slow.ranks)}"
    look_at = f"the links inside {hosts}" if is_host else f"these ranks' network cards on {hosts}"
    others = "other hosts" if is_host else "other rails"
    return Finding(
        title=f"{who} works more slowly than others",
        message=f"all_reduce among rank {spans(slow.ranks)} has {slow.gbps:.3g} GB/s bus "
        f"bandwidth, {others} {slow.usual_gbps:.3g}, limit {limit:.0%} of it; all at once",
        fix=f"look at {look_at}, and at what else runs there",
        ranks=slow.ranks,
        severity=Severity.WARNING,
        confidence=Confidence.MEDIUM,
    )
