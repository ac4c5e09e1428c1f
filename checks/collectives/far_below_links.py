"""Collectives reach a small part of what the links between the GPUs carry.

Why it matters
    NVLink, PCI Express and network cards tell how fast they are. When a large all-reduce reaches a
    small part of the slowest one on its way, something is in between, and costs every step: few
    channels, a wrong protocol or algorithm, a busy or half-broken link, a card on another socket.

What to do
    Unset NCCL_ALGO, NCCL_PROTO, NCCL_MAX_NCHANNELS and NCCL_BUFFSIZE; see what else uses these
    links, nvidia-smi topo -m, and the findings on clocks, PCI Express, NVLinks and slow links.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.machine.gpu import gpu_of
from ddpcheck.machine.nccl_log import log_in
from ddpcheck.machine.ways import Way, ways_from
from ddpcheck.measures.bus_bandwidth import bus_gbps
from ddpcheck.measures.words import listed, size
from ddpcheck.network.rdma import rdma

ID = "collectives/far-below-links"
KIND = "all_reduce"
MIB = 2**20
# Each rank passes on its part of a message: a part of less than 1 MiB has mostly latency.
LEAST_BYTES, LEAST_OF_A_RANK_BYTES, MOST_BYTES = 256 * MIB, MIB, 1024 * MIB
# Measured: 0.66 among 2 H200 with 18 NVLinks (300 of 450 GB/s, the same with nccl-tests). Not
# measured on others, and so far below.
LEAST_RATIO = 0.3
UNKNOWN = "nvidia-smi topo -m; nvidia-smi nvlink -s; see what else uses these links (nvidia-smi)"
SETTINGS = ("NCCL_ALGO", "NCCL_PROTO", "NCCL_MAX_NCHANNELS", "NCCL_BUFFSIZE", "NCCL_NTHREADS")


class Facts(msgspec.Struct, frozen=True):
    """The median of one large collective on a rank, and the ways of its data to other ranks."""

    world_size: int
    size_bytes: int
    took_s: float
    ways: tuple[Way, ...] | None
    settings: dict[str, str]


def probe(ctx: Context) -> Facts:
    """Time a large all-reduce, and read how fast the links are that NCCL's log names."""
    ctx.require_group()
    ctx.require_gpu()
    if ctx.world_size == 1:
        raise Skip("there is no other rank")
    if not ctx.nccl_log:
        raise Skip("NCCL_DEBUG is set: NCCL's log goes where you sent it")
    from ddpcheck.collectives.agreement import agreement
    from ddpcheck.collectives.sweep import speed_of

    size_bytes = max(LEAST_BYTES, LEAST_OF_A_RANK_BYTES * ctx.world_size)
    if size_bytes > MOST_BYTES:
        raise Skip(f"{size(MOST_BYTES)}, the largest message, is small for {ctx.world_size} ranks")
    speed = speed_of(ctx, agreement(ctx, ID), KIND, size_bytes)
    if speed is None:
        raise Skip("the backend offers no all-reduce")
    gpu = gpu_of(ctx.device)
    own = None if isinstance(gpu, str) or gpu.mig else gpu
    ports = [port for port in rdma(ctx.host, ctx.environ).chosen() if port.is_active]
    return Facts(
        world_size=ctx.world_size,
        size_bytes=size_bytes,
        took_s=speed.median_s,
        ways=ways_from(ctx.rank, log_in(ctx.nccl_log), own, ports),
        settings={name: ctx.environ[name] for name in SETTINGS if name in ctx.environ},
    )


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding when the slowest link of all could carry several times as much."""
    found = _slowest_way(facts)
    if found is None:
        return []
    rank, way = found
    reached = _reached_gbps(facts)
    if reached >= LEAST_RATIO * way.gbps:
        return []
    settings = sorted({f"{k}={v}" for own in facts.values() for k, v in own.settings.items()})
    names = listed(sorted({setting.partition("=")[0] for setting in settings}))
    return [
        Finding(
            title="collectives reach a small part of what the links carry",
            message=f"{KIND} of {size(facts[rank].size_bytes)} has {reached:.3g} GB/s bus "
            f"bandwidth; the slowest link of its way, from rank {rank} to {way.target}, carries "
            f"{way.gbps:.3g} GB/s ({way.words}), limit {LEAST_RATIO:.0%} of it"
            + "".join(f"; {setting}" for setting in settings),
            fix=f"unset {names}, unless it is meant" if settings else UNKNOWN,
            ranks=tuple(sorted(facts)),
            severity=Severity.WARNING,
            confidence=Confidence.MEDIUM,
        )
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return the bus bandwidth beside the slowest link's."""
    told = f"{KIND} has {_reached_gbps(facts):.3g} GB/s bus bandwidth"
    found = _slowest_way(facts)
    if found is None:
        return f"{told}; the machine does not tell what its links carry"
    return f"{told} of {found[1].gbps:.3g} ({found[1].words})"


def _reached_gbps(facts: Mapping[int, Facts]) -> float:
    slowest = max(facts.values(), key=lambda own: own.took_s)
    return bus_gbps(KIND, slowest.world_size, slowest.size_bytes, slowest.took_s)


def _slowest_way(facts: Mapping[int, Facts]) -> tuple[int, Way] | None:
    """Return the slowest way of all, and the rank it begins at; None when one is not known."""
    known = [(rank, way) for rank, own in sorted(facts.items()) for way in own.ways or ()]
    if not all(own.ways for own in facts.values()):
        return None
    return min(known, key=lambda each: each[1].gbps)
