"""The way between some ranks is slower than between the others.

Why it matters
    A ring or tree of ranks goes at the speed of its slowest link: one bad cable, one downgraded
    NVLink or PCIe link, one busy switch port slows every all-reduce of the whole job.

What to do
    When one rank or host is named: look at its links (nvidia-smi nvlink -s, nvidia-smi topo -m,
    ethtool, ibstat), or take it out of the job. When one pair is named: at what lies between.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

import msgspec

from ddpcheck.check import Context, Profile, Skip
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.measures.pair_speed import Culprit, Exchange, culprits, pair_gbps, slow_pairs
from ddpcheck.measures.words import listed
from ddpcheck.network.roster import place_of

# Healthy pairs of one kind are within some percent of each other on GPUs. Those of CPU ranks that
# share cores with each other and with strangers were seen to differ by a factor of 2.4 (four ranks
# on two busy cores, the better of two tries).
LEAST_RATIO = {"nccl": 0.5, "gloo": 0.2}
SIZES_BYTES = {
    (False, Profile.QUICK): 2**18,
    (False, Profile.STANDARD): 2**20,
    (False, Profile.FULL): 2**23,
    (True, Profile.QUICK): 2**22,
    (True, Profile.STANDARD): 2**26,
    (True, Profile.FULL): 2**28,
}
TOOLS = {
    "nccl": "nvidia-smi nvlink -s, nvidia-smi topo -m, ibstat, ethtool",
    "gloo": "ip -s link, ethtool, mtr; and what else runs on these cores",
}
GOES = {Profile.QUICK: 4, Profile.STANDARD: 8, Profile.FULL: 40}


class Facts(msgspec.Struct, frozen=True):
    """Where a rank is: its host's name, and what the ranks of one host share; its exchanges."""

    host: str
    place: str
    backend: str
    exchanges: tuple[Exchange, ...]


def probe(ctx: Context) -> Facts:
    """Exchange data with each other rank in turn, while the others do the same."""
    ctx.require_group()
    if ctx.world_size == 1:
        raise Skip("there is no other rank")
    from ddpcheck.collectives.pairs import Pairs

    # GPUs of one machine share links whatever their containers; CPU ranks only a host's loopback.
    place = ctx.machine if ctx.on_gpu else place_of(ctx.host)
    pairs = Pairs(ctx, place, SIZES_BYTES[ctx.on_gpu, ctx.profile], GOES[ctx.profile])
    return Facts(ctx.host, place, ctx.backend, pairs.exchanges(LEAST_RATIO[ctx.backend]))


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for each host, rank or pair that stands behind slow exchanges."""
    speeds = pair_gbps({rank: own.exchanges for rank, own in facts.items()})
    places = {rank: own.place for rank, own in facts.items()}
    limit = LEAST_RATIO[next(iter(facts.values())).backend]
    slow = slow_pairs(speeds, places, limit)
    return [_finding(each, facts, limit) for each in culprits(slow, speeds, places)]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return the slowest and the median pair."""
    speeds = pair_gbps({rank: own.exchanges for rank, own in facts.items()})
    slowest = min(speeds, key=lambda pair: speeds[pair])
    return (
        f"{len(speeds)} pairs exchange {median(speeds.values()):.3g} GB/s each way in the median, "
        f"ranks {slowest[0]} and {slowest[1]} {speeds[slowest]:.3g}"
    )


def _finding(culprit: Culprit, facts: Mapping[int, Facts], limit: float) -> Finding:
    worst = min(culprit.pairs, key=lambda pair: pair.gbps / pair.usual_gbps)
    hosts = listed(dict.fromkeys(facts[rank].host for rank in culprit.ranks if rank in facts))
    told = (f"{pair.pair[0]}-{pair.pair[1]}: {pair.gbps:.3g} GB/s" for pair in culprit.pairs)
    name, look_at = _words(culprit, hosts)
    return Finding(
        title=f"{name} exchanges data more slowly than others",
        message=f"ranks {listed(told)}; others of their kind {worst.usual_gbps:.3g}, limit "
        f"{limit:.0%} of it",
        fix=f"look at {look_at}: {TOOLS[facts[culprit.ranks[0]].backend]}",
        ranks=culprit.ranks,
        severity=Severity.WARNING,
        confidence=Confidence.MEDIUM,
        evidence={
            "gbps": {f"{a.pair[0]}-{a.pair[1]}": round(a.gbps, 4) for a in culprit.pairs[:64]},
            "usual_gbps": round(worst.usual_gbps, 4),
        },
    )


def _words(culprit: Culprit, hosts: str) -> tuple[str, str]:
    if culprit.place:
        return f"host {hosts}", f"the network links of {hosts}"
    if len(culprit.ranks) == 1:
        return (
            f"rank {culprit.ranks[0]} ({hosts})",
            f"the links of rank {culprit.ranks[0]} on {hosts}",
        )
    pair = f"ranks {culprit.ranks[0]} and {culprit.ranks[1]}"
    return f"the pair of {pair} ({hosts})", f"what lies between {pair} on {hosts}"
