"""Copies between the host and a GPU are slower than its peers'.

Why it matters
    Every batch crosses this link, and so do offloaded weights, checkpoints, and gradients between
    GPUs without NVLink. One card on a degraded link, or a process on the far processor, makes all
    ranks wait for it in each step.
What to do
    Compare the link with the other GPUs': lspci -vv -s ADDRESS (LnkSta), nvidia-smi topo -m; bind
    each rank to the processor of its GPU (numactl --cpunodebind), and look for another program
    that uses the same switch.
"""

from collections.abc import Mapping
from statistics import median

import msgspec

from ddpcheck.check import Context, Profile
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.machine.gpu import gpu_of
from ddpcheck.machine.link_speed import link_gbps
from ddpcheck.measures.peers import slower_than_peers
from ddpcheck.measures.words import listed

# Pinned copies reach some 80 to 90 % of a link's rate (measured: 55 of 63 GB/s on an H200).
LEAST_RATIO = 0.7
GOES = {Profile.QUICK: 8, Profile.STANDARD: 16, Profile.FULL: 200}  # the fastest one counts


class Facts(msgspec.Struct, frozen=True):
    """Decimal GB/s of pinned copies to the GPU and back; of the PCIe link at best, or None."""

    host: str
    device: str
    name: str
    to_device_gbps: float
    to_host_gbps: float
    link_gbps: float | None


def probe(ctx: Context) -> Facts:
    """Time copies of pinned memory to this rank's GPU, and back."""
    ctx.require_gpu()
    import torch

    from ddpcheck.target.device_speed import copy_gbps

    to_device_gbps, to_host_gbps = copy_gbps(ctx.device, GOES[ctx.profile])
    torch.cuda.empty_cache()
    gpu = gpu_of(ctx.device)
    return Facts(
        host=ctx.host,
        device=ctx.device,
        name=torch.cuda.get_device_properties(ctx.device).name,
        to_device_gbps=round(to_device_gbps, 1),
        to_host_gbps=round(to_host_gbps, 1),
        link_gbps=None if isinstance(gpu, str) or not gpu.pci else link_gbps(gpu.pci),
    )


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for each direction in which some ranks copy slower than their peers."""
    directions = {
        "to": {rank: own.to_device_gbps for rank, own in facts.items()},
        "from": {rank: own.to_host_gbps for rank, own in facts.items()},
    }
    found = (_finding(facts, way, speeds) for way, speeds in directions.items())
    return [each for each in found if each is not None]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return the slowest and the median copy of each direction."""
    there = [own.to_device_gbps for own in facts.values()]
    back = [own.to_host_gbps for own in facts.values()]
    return (
        f"copies to the GPU at {min(there):g} GB/s at least ({median(there):g} in the median), "
        f"back at {min(back):g} ({median(back):g})"
    )


def _finding(facts: Mapping[int, Facts], way: str, speeds: Mapping[int, float]) -> Finding | None:
    kinds = {rank: own.name for rank, own in facts.items()}
    below = slower_than_peers(speeds, kinds, LEAST_RATIO)
    slow = [rank for rank in below if _is_below_link(facts[rank], speeds[rank])]
    if not slow:
        return None
    told = (
        f"rank {rank} ({facts[rank].host}, {facts[rank].device}) {speeds[rank]:g} GB/s, median "
        f"{below[rank]:g}{_link(facts[rank])}"
        for rank in sorted(slow, key=lambda rank: speeds[rank])
    )
    return Finding(
        title=f"copies {way} a GPU are slower than its peers'",
        message=f"{listed(told, '; ')}; limit {LEAST_RATIO:.0%} of the median",
        fix="compare lspci -vv -s ADDRESS (LnkSta) and nvidia-smi topo -m with the other GPUs', "
        "and bind the rank to the processor of its GPU (numactl --cpunodebind)",
        ranks=tuple(slow),
        severity=Severity.WARNING,
        confidence=Confidence.MEDIUM,
    )


def _is_below_link(own: Facts, speed_gbps: float) -> bool:
    # What its own, narrower slot allows is no fault of the link.
    return own.link_gbps is None or speed_gbps < LEAST_RATIO * own.link_gbps


def _link(own: Facts) -> str:
    return "" if own.link_gbps is None else f" (its link: up to {own.link_gbps:.1f})"
