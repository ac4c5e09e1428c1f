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

ID = "collectives/unequal-groups"
# As for pairs of ranks, see slow_link.py: cores that strangers use, too, are not alike. Rails
# that share cards or switches get unequal parts of them, and are no fault.
LEAST_RATIOS = {
    "nccl": {Split.HOSTS: 0.5, Split.RAILS: 0.2},
    "gloo": {Split.HOSTS: 0.2, Split.RAILS: 0.2},
}
CPU = "cpu"


class Facts(msgspec.Struct, frozen=True):
    """A rank's host, what it computes on, and how fast each of its groups was."""

    host: str
    kind: str
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
    groups = timed_groups(ctx, place, agreement(ctx, ID))
    return Facts(ctx.host, _kind(ctx), ctx.backend, groups)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for each group that is slower than its like."""
    limits = LEAST_RATIOS[next(iter(facts.values())).backend]
    groups = {rank: own.groups for rank, own in facts.items()}
    slow = slow_groups(groups, {rank: own.kind for rank, own in facts.items()}, limits)
    return [_finding(each, facts, limits[each.split]) for each in slow]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many groups of each kind were compared."""
    groups = {(each.split, each.ranks) for own in facts.values() for each in own.groups}
    counts = {split: sum(1 for own, _ in groups if own is split) for split in Split}
    return f"{counts[Split.HOSTS]} hosts and {counts[Split.RAILS]} rails across them compared"


def _kind(ctx: Context) -> str:
    if not ctx.on_gpu:
        return CPU
    import torch

    return str(torch.cuda.get_device_properties(ctx.device).name)


def _finding(slow: SlowGroup, facts: Mapping[int, Facts], limit: float) -> Finding:
    hosts = listed(dict.fromkeys(facts[rank].host for rank in slow.ranks if rank in facts))
    is_host = slow.split is Split.HOSTS
    ranks = spans(slow.ranks)
    who = f"host {hosts}" if is_host else f"the rail of ranks {ranks} (one of every host)"
    look_at = f"the links inside {hosts}" if is_host else f"these ranks' network cards on {hosts}"
    others = "other hosts" if is_host else "other rails"
    return Finding(
        title=f"{who} carries out collectives more slowly than others",
        message=f"all_reduce among ranks {ranks} has {slow.gbps:.3g} GB/s bus "
        f"bandwidth, {others} {slow.usual_gbps:.3g}, limit {limit:.0%} of it; all at once",
        fix=f"look at {look_at}, and at what else runs there",
        ranks=slow.ranks,
        severity=Severity.WARNING,
        confidence=Confidence.MEDIUM,
    )
