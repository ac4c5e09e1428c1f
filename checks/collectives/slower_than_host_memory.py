"""GPUs that read each other's memory are slower at it than host memory between them would be.

Why it matters
    NCCL lets GPUs of one host read each other directly where the driver says they can. Over PCI
    Express with access control (ACS), or between processors, that may crawl at 2 GB/s where a copy
    through host memory has 13 (seen on RTX A6000): training on two GPUs is slower than on one.

What to do
    Compare with NCCL_P2P_DISABLE=1, or NCCL_P2P_LEVEL=PXB. To mend it, clear ACS on the bridges
    between the GPUs (setpci -s ADDRESS ECAP_ACS+0x6.w=0000) and boot with iommu=pt.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.machine.nccl_log import Transport, log_in
from ddpcheck.measures.bus_bandwidth import bus_gbps
from ddpcheck.measures.words import size

KIND = "all_reduce"
SIZE_BYTES = 64 * 2**20
GOES_COUNT, COPIES_COUNT = 5, 8
# Through host memory NCCL reached 13 of the 25 GB/s that a copy to or from an RTX A6000 has
# (huggingface/transformers issue 9371), and a direct way 2.6; healthy ones have more than a copy.
LEAST_RATIO = 0.4
SWITCHES = ("NCCL_P2P_LEVEL", "NCCL_MAX_NCHANNELS", "NCCL_ALGO", "NCCL_PROTO", "NCCL_BUFFSIZE")


class Facts(msgspec.Struct, frozen=True):
    """The median of one all-reduce on a rank, and decimal GB/s of its copies to or from the host.

    ``is_direct`` is whether NCCL's log tells that all data of this rank goes from GPU to GPU.
    """

    world_size: int
    took_s: float
    host_gbps: float
    is_direct: bool
    settings: dict[str, str]


def probe(ctx: Context) -> Facts:
    """Time an all-reduce, and copies of pinned memory to this rank's GPU and back."""
    ctx.require_group()
    ctx.require_gpu()
    if ctx.world_size == 1:
        raise Skip("there is no other rank")
    import torch

    from ddpcheck.collectives.timing import reductions_s
    from ddpcheck.target.device_speed import copy_gbps

    # All ranks take part, with a log or without: NCCL_DEBUG may be set on one host only.
    took_s = median(reductions_s(torch.zeros(SIZE_BYTES // 4, device=ctx.device), GOES_COUNT))
    copies = copy_gbps(ctx.device, COPIES_COUNT)
    torch.cuda.empty_cache()  # what torch keeps NCCL cannot use
    own = [each for each in log_in(ctx.nccl_log).paths if each.source == ctx.rank]
    return Facts(
        world_size=ctx.world_size,
        took_s=round(took_s, 7),
        host_gbps=round(min(copies), 1),
        is_direct=bool(own) and all(each.transport is Transport.P2P for each in own),
        settings={name: ctx.environ[name] for name in SWITCHES if name in ctx.environ},
    )


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding when all data goes directly, and much slower than a copy to the host."""
    if not all(own.is_direct for own in facts.values()):
        return []
    reached = _reached_gbps(facts)
    slowest = min(facts, key=lambda rank: facts[rank].host_gbps)
    copies = facts[slowest].host_gbps
    if reached >= LEAST_RATIO * copies:
        return []
    set_here = sorted({f"{k}={v}" for own in facts.values() for k, v in own.settings.items()})
    return [
        Finding(
            title="GPUs exchange data directly, slower than through host memory",
            message=f"{KIND} of {size(SIZE_BYTES)} has {reached:.3g} GB/s bus bandwidth from GPU to "
            f"GPU; the slowest copy to or from the host, of rank {slowest}, has {copies:g} GB/s, "
            f"limit {LEAST_RATIO:.0%} of it" + "".join(f"; {each}" for each in set_here),
            fix="compare with NCCL_P2P_DISABLE=1 or NCCL_P2P_LEVEL=PXB, and use what is faster; clear "
            "ACS on the bridges between the GPUs and boot with iommu=pt (nvidia-smi topo -m)",
            ranks=tuple(sorted(facts)),
            severity=Severity.WARNING,
            confidence=Confidence.MEDIUM,
        )
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return the bus bandwidth beside the slowest copy's."""
    copies = min(own.host_gbps for own in facts.values())
    way = (
        "from GPU to GPU"
        if all(own.is_direct for own in facts.values())
        else "by ways that are not all told to be direct"
    )
    return f"{_reached_gbps(facts):.3g} GB/s {way}; copies to or from the host at {copies:g}"


def _reached_gbps(facts: Mapping[int, Facts]) -> float:
    slowest = max(facts.values(), key=lambda own: own.took_s)
    return bus_gbps(KIND, slowest.world_size, SIZE_BYTES, slowest.took_s)
