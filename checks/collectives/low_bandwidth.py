"""Collectives are slower than the machine allows, or than they were before.

Why it matters
    What a job pays for is the link between its ranks. A collective that goes through host memory
    or sockets instead, or through a link that came up at a part of its speed, gives right values,
    and makes every step longer.

What to do
    See which transport NCCL chose (NCCL_DEBUG=INFO, lines with "via"), and nvidia-smi topo -m.
    Bus bandwidths are comparable with those of nccl-tests. To compare with an earlier run of the
    same machines, give its report to --baseline; to compare with a good machine of the same model,
    give its report, and a wider --baseline-bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.measures.collective_speed import (
    Speed,
    gbps,
    slower_than_before,
    slowest,
    slowest_ranks,
)
from ddpcheck.measures.words import listed, size

ID = "collectives/low-bandwidth"
# Smaller messages are a matter of latency.
LEAST_BYTES = 1 << 20
# gloo copies and adds on the CPU: measured 0.15 to 0.4 of what one loopback connection carries.
LEAST_OF_LOOPBACK_RATIO = 0.02
LOOPBACK_CHUNKS = 64


class Facts(msgspec.Struct, frozen=True):
    """What one rank timed, what rank 0 knows of before, and the loopback's decimal GB/s."""

    machine: str
    backend: str
    world_size: int
    speeds: tuple[Speed, ...]
    before: tuple[Speed, ...] = ()
    loopback_gbps: float | None = None
    bound_ratio: float = 0.05


def probe(ctx: Context) -> Facts:
    """Time the collectives of training in the sizes of the profile."""
    ctx.require_group()
    if ctx.world_size == 1:
        raise Skip("there is no other rank")
    from ddpcheck.collectives.agreement import agreement
    from ddpcheck.collectives.sweep import swept
    from ddpcheck.network.loopback import loopback_gbps

    alone = ctx.rank == 0 and ctx.backend == "gloo"
    return Facts(
        machine=ctx.machine,
        backend=ctx.backend,
        world_size=ctx.world_size,
        loopback_gbps=round(loopback_gbps(LOOPBACK_CHUNKS), 3) if alone else None,
        speeds=swept(ctx, agreement(ctx, ID)),
        before=_before(ctx),
        bound_ratio=ctx.baseline_bound_ratio,
    )


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for what is slower than before, and for gloo that is far below TCP."""
    now = slowest({rank: own.speeds for rank, own in facts.items()})
    first = facts[min(facts)]
    pairs = list(slower_than_before(now, first.before, LEAST_BYTES, first.bound_ratio))
    return [
        *([_slower(pairs, facts, first.bound_ratio)] if pairs else []),
        *_below_loopback(now, first, facts),
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return latency and bus bandwidth of the smallest and the largest all-reduce."""
    now = slowest({rank: own.speeds for rank, own in facts.items()})
    sums = sorted((s for s in now if s.kind == "all_reduce"), key=lambda speed: speed.size_bytes)
    if not sums:
        return "the backend offers no all-reduce"
    small, large = sums[0], sums[-1]
    world = next(iter(facts.values())).world_size
    told = f"all_reduce of {size(small.size_bytes)} {1e6 * small.median_s:.0f} us"
    if small.wire_s is not None:
        told += f" ({1e6 * small.wire_s:.0f} us of it not for starting it)"
    return f"{told}, of {size(large.size_bytes)} {gbps(large, world):.3g} GB/s bus bandwidth"


def representatives(facts: Mapping[int, Facts]) -> set[int]:
    """Return the slowest ranks, with which a later run is compared."""
    return slowest_ranks({rank: own.speeds for rank, own in facts.items()})


def _before(ctx: Context) -> tuple[Speed, ...]:
    """Return what the slowest ranks of an earlier run had; nothing of another number of ranks."""
    told = {rank: msgspec.convert(fact, Facts) for rank, fact in ctx.baseline.get(ID, {}).items()}
    same = {rank: own.speeds for rank, own in told.items() if own.world_size == ctx.world_size}
    return tuple(slowest(same))


def _slower(
    pairs: Sequence[tuple[Speed, Speed]], facts: Mapping[int, Facts], bound_ratio: float
) -> Finding:
    told = (
        f"{now.kind} of {size(now.size_bytes)} ({now.memory}) {1e3 * now.median_s:.3g} ms, "
        f"before {1e3 * old.median_s:.3g} ms"
        for now, old in pairs
    )
    return Finding(
        title=f"{len(pairs)} collectives are slower than in the baseline",
        message=f"{listed(told, '; ')}; limit {bound_ratio:.0%} and the spread of both runs",
        fix="compare the transports, clocks and links of both runs (ddpcheck report), and what "
        "else runs on these hosts now",
        ranks=tuple(sorted(facts)),
        severity=Severity.WARNING,
        confidence=Confidence.MEDIUM,
    )


def _below_loopback(
    now: Sequence[Speed], first: Facts, facts: Mapping[int, Facts]
) -> Iterator[Finding]:
    large = [speed for speed in now if speed.size_bytes >= LEAST_BYTES]
    is_one_host = len({own.machine for own in facts.values()}) == 1
    if not large or not is_one_host or not first.loopback_gbps:
        return
    best = max(large, key=lambda speed: gbps(speed, first.world_size))
    reached = gbps(best, first.world_size)
    if reached < LEAST_OF_LOOPBACK_RATIO * first.loopback_gbps:
        yield Finding(
            title="gloo is far slower than the loopback that it works through",
            message=f"{best.kind} reaches {reached:.3g} GB/s, one TCP connection "
            f"{first.loopback_gbps:.3g}, limit {LEAST_OF_LOOPBACK_RATIO:.0%} of it",
            fix="see what else runs on these cores, and how many cores each rank may use",
            ranks=tuple(sorted(facts)),
            severity=Severity.INFO,
            confidence=Confidence.LOW,
        )
