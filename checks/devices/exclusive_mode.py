"""A GPU's mode does not let these ranks work on it.

Why it matters
    A GPU in prohibited mode takes no CUDA program at all, and one in exclusive mode only the
    first: the ranks after it fail with "all CUDA-capable devices are busy or unavailable".
    Slices of a GPU in MIG mode cannot reach each other through NCCL over NVLink or PCI
    Express peer-to-peer; one rank on one slice works.
What to do
    As root: nvidia-smi -i ID -c DEFAULT lets every program in; nvidia-smi -i ID -mig 0, with
    no process on the GPU, makes one GPU of its slices again.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.machine.gpu import gpu_of
from ddpcheck.measures.words import listed

# Under MPS all programs share one process on the GPU: exclusive mode is what it wants.
# Source: NVIDIA Multi-Process Service, "Performing MPS Related Tasks".
MPS_SERVER = "nvidia-cuda-mps-server"
OPEN = "as root: nvidia-smi -i ID -c DEFAULT"
WHOLE = "if slices are not meant, as root: nvidia-smi -i ID -mig 0"


class Facts(msgspec.Struct, frozen=True):
    """The GPU that this rank works on, or that its slice is of, and that GPU's modes."""

    host: str
    uuid: str
    compute_mode: str | None
    mig: bool
    mps: bool


def probe(ctx: Context) -> Facts:
    """Return the modes of this rank's GPU."""
    ctx.require_gpu()
    gpu = gpu_of(ctx.device)
    if isinstance(gpu, str):
        raise Skip(gpu)
    mps = any(process.name == MPS_SERVER for process in gpu.processes or ())
    return Facts(ctx.host, gpu.uuid, gpu.compute_mode, bool(gpu.mig), mps)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for GPUs that refuse ranks, and one for slices."""
    users: dict[str, list[int]] = {}
    for rank, own in sorted(facts.items()):
        users.setdefault(own.uuid, []).append(rank)
    closed = [rank for rank, own in sorted(facts.items()) if own.compute_mode == "prohibited"]
    crowded = [
        rank
        for ranks in users.values()
        for rank in ranks
        if len(ranks) > 1 and "exclusive" in (facts[rank].compute_mode or "")
        # Each slice of a GPU takes one program.
        if not facts[rank].mps and not facts[rank].mig
    ]
    sliced = [rank for rank, own in sorted(facts.items()) if own.mig]
    return [
        *_finding(facts, closed, Severity.ERROR, "a GPU takes no programs", OPEN),
        *_finding(facts, crowded, Severity.ERROR, "ranks share a GPU that takes one", OPEN),
        *_finding(facts, sliced, Severity.INFO, "ranks work on slices of GPUs (MIG)", WHOLE),
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return the modes that were seen."""
    modes = sorted({own.compute_mode or "unknown" for own in facts.values()})
    return f"compute mode {', '.join(modes)}"


def _finding(
    facts: Mapping[int, Facts], ranks: Sequence[int], severity: Severity, title: str, fix: str
) -> Iterator[Finding]:
    told = (
        f"rank {rank} ({facts[rank].host}, {facts[rank].uuid}): compute mode "
        f"{facts[rank].compute_mode or 'unknown'}{', MIG' * facts[rank].mig}"
        for rank in ranks
    )
    if ranks:
        yield Finding(
            title=title,
            message=listed(told, "; "),
            fix=fix,
            ranks=tuple(sorted(ranks)),
            severity=severity,
            confidence=Confidence.HIGH,
        )
