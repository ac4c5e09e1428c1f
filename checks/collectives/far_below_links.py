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
from statistics import median

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.machine.gpu import gpu_of
from ddpcheck.machine.nccl_log import log_in
from ddpcheck.machine.ways import Way, ways_from
from ddpcheck.measures.bus_bandwidth import bus_gbps
from ddpcheck.measures.words import listed, size
from ddpcheck.network.rdma import rdma
from ddpcheck.variables.nccl_conf import with_conf_files

ID = "collectives/far-below-links"
KIND = "all_reduce"
MIB = 2**20  # bytes
# Each rank passes on its part of a message: a part of less than 1 MiB has mostly latency.
LARGE_BYTES, LEAST_OF_A_RANK_BYTES, MOST_BYTES = 256 * MIB, MIB, 1024 * MIB
GOES_COUNT = 10
# Measured: 0.66 among 2 H200 with 18 NVLinks (300 of 450 GB/s, the same with nccl-tests). Not
# measured on others, and so far below.
LEAST_RATIO = 0.3
UNKNOWN = (
    "nvidia-smi topo -m; nvidia-smi nvlink -s; see what else uses these links (nvidia-smi); for "
    "RDMA without GDRDMA load nvidia-peermem"
)
SETTINGS = ("NCCL_ALGO", "NCCL_PROTO", "NCCL_MAX_NCHANNELS", "NCCL_MAX_CTAS", "NCCL_BUFFSIZE")


class Facts(msgspec.Struct, frozen=True):
    """The median of one large collective on a rank, and the ways of its data to other ranks.

    ``named`` tells whether NCCL's log names any path.
    """

    world_size: int
    size_bytes: int
    took_s: float
    ways: tuple[Way, ...] | None
    settings: dict[str, str]
    named: bool = True


def probe(ctx: Context) -> Facts:
    """Time a large all-reduce, and read how fast the links are that NCCL's log names."""
    ctx.require_group()
    ctx.require_gpu()
    if ctx.world_size == 1:
        raise Skip("there is no other rank")
    import torch

    from ddpcheck.collectives.agreement import agreement
    from ddpcheck.collectives.timing import affordable_bytes, reductions_s

    agreed = agreement(ctx, ID)
    least_bytes = LEAST_OF_A_RANK_BYTES * ctx.world_size
    wanted = min(max(LARGE_BYTES, least_bytes), MOST_BYTES)
    size_bytes = affordable_bytes(ctx, agreed, wanted, GOES_COUNT)
    if size_bytes < least_bytes:
        raise Skip(f"a message of {size(size_bytes)} is a small one among {ctx.world_size} ranks")
    # All ranks take part, with a log or without: NCCL_DEBUG may be set on one host only.
    took_s = median(reductions_s(torch.zeros(size_bytes // 4, device=ctx.device), GOES_COUNT))
    torch.cuda.empty_cache()  # what torch keeps NCCL cannot use
    log, given = log_in(ctx.nccl_log), with_conf_files(ctx.environ)
    gpu = gpu_of(ctx.device)
    own = None if isinstance(gpu, str) or gpu.mig else gpu
    ports = [port for port in rdma(ctx.host, ctx.environ).chosen() if port.is_active]
    return Facts(
        world_size=ctx.world_size,
        size_bytes=size_bytes,
        took_s=round(took_s, 7),
        ways=ways_from(ctx.rank, log, own, ports),
        named=bool(log.paths),
        settings={name: given[name] for name in SETTINGS if name in given},
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
        if not all(own.named for own in facts.values()):
            return f"{told}; NCCL's log does not name the ways it took"
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
