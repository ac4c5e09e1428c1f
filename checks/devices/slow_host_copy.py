"""Copies between the host and a GPU are slower than its peers', or than its link could be.

Why it matters
    Every batch crosses this link, and so do offloaded weights, checkpoints, and gradients between
    GPUs without NVLink. One card on a degraded link, or a process on the far processor, makes all
    ranks wait for it in each step.
What to do
    Compare the link with the other GPUs': lspci -vv -s ADDRESS (LnkSta), nvidia-smi topo -m; bind
    each rank to the processor of its GPU (numactl --cpunodebind), and look for another program
    that uses the same switch.
"""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

import msgspec

from ddpcheck.check import Context, Profile
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.machine.gpu import generation_of, gpu_of
from ddpcheck.machine.link_speed import generation_gbps, link_gbps
from ddpcheck.measures.peers import slower_than_peers
from ddpcheck.measures.words import listed

# Pinned copies reach some 80 to 90 % of a link's rate (measured: 55 of 63 GB/s on an H200).
LEAST_RATIO = 0.7
GOES = {Profile.QUICK: 8, Profile.STANDARD: 16, Profile.FULL: 200}  # the fastest one counts


class Facts(msgspec.Struct, frozen=True):
    """Decimal GB/s of pinned copies to the GPU and back; of the PCIe link at best, or None.

    The link's generation while it was busy, the best for both its ends (0: not told), its lanes.
    """

    host: str
    device: str
    name: str
    to_device_gbps: float
    to_host_gbps: float
    link_gbps: float | None
    generation: int = 0
    best_generation: int = 0
    width: int | None = None


def probe(ctx: Context) -> Facts:
    """Time copies of pinned memory to this rank's GPU, and back."""
    ctx.require_gpu()
    import torch

    from ddpcheck.target.device_speed import asked_under_load, copy_gbps

    to_device_gbps, to_host_gbps = copy_gbps(ctx.device, GOES[ctx.profile])
    now, best = asked_under_load(ctx.device, lambda: generation_of(ctx.device)) or (0, 0)
    torch.cuda.empty_cache()
    gpu = gpu_of(ctx.device)
    return Facts(
        host=ctx.host,
        device=ctx.device,
        name=torch.cuda.get_device_properties(ctx.device).name,
        to_device_gbps=round(to_device_gbps, 1),
        to_host_gbps=round(to_host_gbps, 1),
        link_gbps=None if isinstance(gpu, str) or not gpu.pci else link_gbps(gpu.pci),
        generation=now,
        best_generation=best,
        width=None if isinstance(gpu, str) else gpu.pcie_width,
    )


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for links of a low generation, and one a direction for the rest."""
    low = sorted(rank for rank, own in facts.items() if _has_low_link(own))
    directions = {
        "to": {rank: own.to_device_gbps for rank, own in facts.items()},
        "from": {rank: own.to_host_gbps for rank, own in facts.items()},
    }
    found = (_finding(facts, way, speeds, low) for way, speeds in directions.items())
    return [*_low_links(facts, low), *(each for each in found if each is not None)]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return the slowest and the median copy of each direction."""
    there = [own.to_device_gbps for own in facts.values()]
    back = [own.to_host_gbps for own in facts.values()]
    return (
        f"copies to the GPU at {min(there):g} GB/s at least ({median(there):g} in the median), "
        f"back at {min(back):g} ({median(back):g})"
    )


def _has_low_link(own: Facts) -> bool:
    """Return whether the link stayed below its generation under load, and was as slow as that."""
    if not 0 < own.generation < own.best_generation:
        return False
    # Copies that are faster than the generation allows show that the driver told of an idle link.
    allowed_gbps = generation_gbps(own.generation, own.width)
    return max(own.to_device_gbps, own.to_host_gbps) <= allowed_gbps


def _low_links(facts: Mapping[int, Facts], low: Sequence[int]) -> Iterator[Finding]:
    told = (
        f"rank {rank} ({own.host}, {own.device}): generation {own.generation} of "
        f"{own.best_generation}, {own.to_device_gbps:g} GB/s"
        for rank, own in sorted(facts.items())
        if rank in low
    )
    if low:
        yield Finding(
            title="a GPU's PCI Express link stays below its generation under load",
            message=listed(told, "; "),
            fix="reseat the card or riser, look at lspci -vv -s ADDRESS | grep LnkSta, and at the "
            "slot's speed in the BIOS",
            ranks=tuple(low),
            severity=Severity.WARNING,
            confidence=Confidence.MEDIUM,
        )


def _finding(
    facts: Mapping[int, Facts], way: str, speeds: Mapping[int, float], low: Sequence[int]
) -> Finding | None:
    kinds = {rank: own.name for rank, own in facts.items()}
    below = slower_than_peers(speeds, kinds, LEAST_RATIO)
    slow = [r for r in below if r not in low and _is_below_link(facts[r], speeds[r])]
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
