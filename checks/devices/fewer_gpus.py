"""A host shows fewer GPUs than the others.

Why it matters
    A GPU that has fallen off the bus, or that a container was not given, is simply not there: the
    host counts 7 where the others count 8. The job then starts with fewer ranks than planned, waits
    for one that nobody starts, or puts two ranks on one GPU.
What to do
    Compare nvidia-smi -L and lspci | grep -i nvidia with a host that shows them all, look for Xid
    79 in dmesg, and reset or reboot the host; or leave it out of the job.
"""

from collections import Counter
from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.measures.words import listed

MASK = "CUDA_VISIBLE_DEVICES"


class Facts(msgspec.Struct, frozen=True):
    """How many GPUs the machine shows to a rank from which none is hidden."""

    host: str
    machine: str
    gpus: int


def probe(ctx: Context) -> Facts:
    """Return how many GPUs this rank sees, unless it was given some of them."""
    ctx.require_gpu()
    if MASK in ctx.environ:
        raise Skip(f"{MASK} says which GPUs this rank sees")
    import torch

    return Facts(ctx.host, ctx.machine or ctx.host, torch.cuda.device_count())


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for the hosts below the usual count, of two hosts the lesser one."""
    counts = {own.machine: own.gpus for own in facts.values()}
    times = Counter(counts.values())
    usual = max(times, key=lambda count: (times[count], count))
    fewer = {rank: own for rank, own in sorted(facts.items()) if own.gpus < usual}
    # A host with half or a quarter of what others show is of another kind; one with 7 of 8 is not.
    lost = {rank: own for rank, own in fewer.items() if not own.gpus or usual % own.gpus}
    kept = {rank: own for rank, own in fewer.items() if rank not in lost}
    return [
        _finding(found, usual, severity)
        for found, severity in ((lost, Severity.WARNING), (kept, Severity.INFO))
        if found
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return the counts that were seen."""
    counts = sorted({own.gpus for own in facts.values()})
    return f"{' or '.join(map(str, counts))} GPUs a host"


def _finding(fewer: Mapping[int, Facts], usual: int, severity: Severity) -> Finding:
    shown = dict.fromkeys(f"{own.host} shows {own.gpus}" for own in fewer.values())
    hosts = listed(dict.fromkeys(own.host for own in fewer.values()))
    return Finding(
        title="a host shows fewer GPUs than the others",
        message=f"{listed(shown)} GPUs, the others {usual}",
        fix=f"look for the missing GPUs on {hosts}: nvidia-smi -L, dmesg | grep Xid; reset or "
        "reboot, or leave the host out of the job",
        ranks=tuple(fewer),
        severity=severity,
        confidence=Confidence.MEDIUM if severity is Severity.WARNING else Confidence.LOW,
    )
