"""A GPU multiplies slower than its peers.

Why it matters
    In data-parallel training every rank waits for the slowest one: a single GPU that is hot,
    capped in power or clocks, or shared with another program sets the speed of all the others.
What to do
    Look at nvidia-smi -q -d PERFORMANCE,CLOCK,POWER on the named host for what slows the clocks,
    and at nvidia-smi for another process on the GPU; compare cooling, power limit (-pl) and
    locked clocks (-rgc resets them) with the other hosts.
"""

from collections.abc import Mapping
from statistics import median

import msgspec

from ddpcheck.check import Context, Profile
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.measures.peers import slower_than_peers
from ddpcheck.measures.words import listed

# Healthy GPUs of one model differ by some percent, hot ones by a fifth and more.
# Source: Sinha et al., "Not All GPUs Are Created Equal", SC 2022: 8 % in the middle of a cluster.
LEAST_RATIO = 0.85
SIZE = 4096  # rows and columns: more work than a GPU's processors can do at once
GOES = {Profile.QUICK: 5, Profile.STANDARD: 10, Profile.FULL: 500}  # 10 products each


class Facts(msgspec.Struct, frozen=True):
    """The speed of one rank's GPU in TFLOP/s (1e12 operations a second), and its model."""

    host: str
    device: str
    name: str
    tflops: float


def probe(ctx: Context) -> Facts:
    """Time large matrix products on this rank's GPU."""
    ctx.require_gpu()
    import torch

    from ddpcheck.target.device_speed import matmul_tflops

    goes = matmul_tflops(ctx.device, SIZE, GOES[ctx.profile])
    # A GPU that may draw no more power slows down after some 50 ms of this (seen on H200s: by
    # 14 %). A short run tells its speed before, a long one the speed it keeps.
    tflops = median(goes) if ctx.profile is Profile.FULL else max(goes)
    torch.cuda.empty_cache()
    name = torch.cuda.get_device_properties(ctx.device).name
    return Facts(ctx.host, ctx.device, name, round(tflops, 1))


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return one finding for the GPUs that are slower than others of their model."""
    speeds = {rank: own.tflops for rank, own in facts.items()}
    slow = slower_than_peers(speeds, {r: own.name for r, own in facts.items()}, LEAST_RATIO)
    if not slow:
        return []
    worst = sorted(slow, key=lambda rank: speeds[rank] / slow[rank])
    told = (
        f"rank {rank} ({facts[rank].host}, {facts[rank].device}) {speeds[rank]:g} TFLOP/s, "
        f"{speeds[rank] / slow[rank]:.0%} of the median {slow[rank]:g}"
        for rank in worst
    )
    return [
        Finding(
            title="a GPU is slower than its peers",
            message=f"{listed(told, '; ')}; limit {LEAST_RATIO:.0%}",
            fix="on the named host, see nvidia-smi -q -d PERFORMANCE,CLOCK,POWER for what slows "
            "it, and nvidia-smi for another process on it",
            ranks=tuple(slow),
            severity=Severity.WARNING,
            confidence=Confidence.MEDIUM,
            evidence={"tflops": {str(rank): speeds[rank] for rank in slow}},
        )
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return the slowest and the median GPU."""
    speeds = [own.tflops for own in facts.values()]
    return f"matrix products at {min(speeds):g} TFLOP/s at least, {median(speeds):g} in the median"
