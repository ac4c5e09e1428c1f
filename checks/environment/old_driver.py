"""The NVIDIA driver does not let torch use the GPUs.

Why it matters
    A torch built for CUDA 13 finds no GPU with a driver of the CUDA 12 age: it warns once and says
    that there is none, and a job that falls back to the CPU runs a hundred times slower. A driver
    that was updated under running programs, or whose services do not run, looks the same.
What to do
    Update the driver of the host (a container shares it), or install a torch built for a CUDA
    version that the driver supports, such as pip install torch --index-url
    https://download.pytorch.org/whl/cu126; nvidia-smi shows both versions.
"""

from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.machine.driver import (
    NO_START,
    device_count,
    hides_gpus,
    kernel_driver,
    start_error,
    supported_cuda,
)
from ddpcheck.measures.hosts import host_names
from ddpcheck.measures.versions import version
from ddpcheck.measures.words import listed

# The oldest driver that runs programs of any CUDA version with this major number.
# Source: NVIDIA, CUDA Toolkit Release Notes, "CUDA Toolkit and Minimum Required Driver Version for
# CUDA Minor Version Compatibility"; CUDA Compatibility, "Minor Version Compatibility".
OLDEST = {11: "450.80.02", 12: "525.60.13", 13: "580"}


class Facts(msgspec.Struct, frozen=True):
    """The kernel's driver, the newest CUDA that libcuda supports ('' if unknown), torch's CUDA.

    ``start_error`` is CUDA's number for why it does not start, 0 when torch sees a GPU.
    """

    host: str
    on_gpu: bool
    devices: int
    driver: str
    supported: str
    cuda: str
    start_error: int


def probe(ctx: Context) -> Facts:
    """Return whether torch can use the GPUs that this process is given."""
    import torch

    devices = 0 if hides_gpus(ctx.environ) else device_count()
    driver = kernel_driver()
    if not torch.version.cuda or not devices or not driver:
        raise Skip("this torch has no CUDA" if not torch.version.cuda else "no NVIDIA GPU is given")
    return Facts(
        host=ctx.host,
        on_gpu=ctx.on_gpu,
        devices=devices,
        driver=driver,
        supported=supported_cuda(),
        cuda=torch.version.cuda,
        start_error=0 if torch.cuda.is_available() else start_error(),
    )


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return for each cause the ranks that cannot use a GPU, or use it within limits."""
    causes: dict[tuple[str, str, Severity], list[int]] = {}
    for rank, own in sorted(facts.items()):
        if cause := _cause(own):
            causes.setdefault(cause, []).append(rank)
    return [_finding(facts, cause, ranks) for cause, ranks in causes.items()]


def _cause(own: Facts) -> tuple[str, str, Severity] | None:
    """Return what is wrong, how to mend it, and how bad that is for what the user asked."""
    # Who asked for the CPU may mean it; otherwise the run is on the GPU that NVML has counted.
    severe = Severity.ERROR if own.on_gpu else Severity.WARNING
    if _is_too_old(own):
        oldest = OLDEST.get(_major(own.cuda), "a newer one")
        fix = (
            f"update the driver to {oldest} or newer, or install a torch that is built for an "
            "older CUDA (pip install torch --index-url https://download.pytorch.org/whl/cu126)"
        )
        return f"the driver {own.driver} is too old for CUDA {own.cuda}", fix, severe
    if own.start_error:
        unknown = (f"CUDA does not start ({own.start_error})", "see nvidia-smi and dmesg")
        why, fix = NO_START.get(own.start_error, unknown)
        return f"torch sees no GPU: {why}", fix, severe
    if own.supported and _major(own.supported) == _major(own.cuda) and _older(own):
        return (
            f"the driver supports CUDA {own.supported}, torch is built for {own.cuda}",
            "nothing, unless a kernel fails with 'unsupported toolchain': then update the driver",
            Severity.INFO,
        )
    return None


def _is_too_old(own: Facts) -> bool:
    if own.supported:  # by libcuda, which a forward-compatibility package may have replaced
        return _major(own.supported) < _major(own.cuda)
    oldest = OLDEST.get(_major(own.cuda))
    return oldest is not None and version(own.driver) < version(oldest)


def _older(own: Facts) -> bool:
    return version(own.supported) < version(own.cuda)


def _major(told: str) -> int:
    return version(told)[0] if told else 0


def _finding(
    facts: Mapping[int, Facts], cause: tuple[str, str, Severity], ranks: list[int]
) -> Finding:
    title, fix, severity = cause
    own = {rank: facts[rank] for rank in ranks}
    first = own[ranks[0]]
    return Finding(
        title=title,
        message=f"{listed(host_names(own))}: {first.devices} GPU(s), kernel driver {first.driver}, "
        f"libcuda for CUDA {first.supported or 'unknown'}, torch built for CUDA {first.cuda}",
        fix=fix,
        ranks=tuple(ranks),
        severity=severity,
        confidence=Confidence.HIGH,
    )
