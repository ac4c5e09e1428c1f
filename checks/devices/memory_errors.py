"""The memory of a GPU has errors, or the GPU waits for a reset.

Why it matters
    An uncorrectable error in a GPU's memory ends the process that meets it, and with it the
    whole job; a GPU that the driver wants to reset fails its next job as well. A row that
    could not be remapped keeps failing. One such GPU in 64 is enough for a job that dies
    every few hours, each time with an error that names a CUDA call and not the GPU.
What to do
    Take the GPU out of the job. With no process on it, reset it (nvidia-smi --gpu-reset -i
    ID) or reboot the host; a remapping that is pending is done by that, too. If remapping
    failed, or errors come back, have the GPU replaced.
"""

from collections.abc import Iterator, Mapping

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Finding, Severity
from ddpcheck.machine.gpu import Memory, gpu_of
from ddpcheck.measures.words import listed

# Our choice: corrected errors cost nothing, and a few are normal on any large memory.
MANY_CORRECTED_COUNT = 1000
RESET = "with no process on it: nvidia-smi --gpu-reset -i ID, or reboot the host"
REPLACE = "take the GPU out of the job and have it replaced"
WATCH = "nothing now; compare with a later run, and look at: nvidia-smi -q -d ECC,ROW_REMAPPER"


class Facts(msgspec.Struct, frozen=True):
    """What the driver counts on this rank's GPU, and what it asks for (None: it cannot say)."""

    host: str
    pci: str
    fault: str
    recovery: str | None
    memory: Memory


def probe(ctx: Context) -> Facts:
    """Return the counters of the rank's own GPU."""
    ctx.require_gpu()
    gpu = gpu_of(ctx.device)
    if isinstance(gpu, str):
        raise Skip(gpu)
    return Facts(ctx.host, gpu.pci or gpu.uuid, gpu.fault, gpu.recovery, gpu.memory)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return one finding for each kind of trouble; a GPU is named under its worst only."""
    kinds: dict[tuple[Severity, str, str], dict[int, str]] = {}
    for rank, own in sorted(facts.items()):
        for severity, title, fix, told in _troubles(own):
            kinds.setdefault((severity, title, fix), {})[rank] = told
            break
    return [
        Finding(
            title=title,
            message=_gpus(facts, told),
            fix=fix,
            ranks=tuple(told),
            severity=severity,
        )
        for (severity, title, fix), told in kinds.items()
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return for how many GPUs errors are counted, and how many were not corrected."""
    counted = [own.memory.uncorrected for own in facts.values()]
    known = [count for count in counted if count is not None]
    return f"{sum(known)} uncorrected memory errors on the {len(known)} GPUs that count them"


def _troubles(own: Facts) -> Iterator[tuple[Severity, str, str, str]]:
    """Yield severity, title, fix and measured value, the worst first.

    Source: NVIDIA, "GPU Memory Error Management" (docs.nvidia.com/deploy/
    a100-gpu-mem-error-mgmt), "Error Recovery and Response Flags": the recovery action tells
    whether new processes can run; with a pending remapping they can; a failed one is for RMA.
    """
    memory = own.memory
    if own.fault:
        yield Severity.ERROR, "a GPU is out of order", RESET, own.fault
    if own.recovery not in {None, "none"}:
        told = f"the driver asks for: {own.recovery}"
        yield Severity.ERROR, "a GPU waits for its recovery", RESET, told
    if memory.remap_failed:
        told = "remapping a row failed"
        yield Severity.ERROR, "a GPU's memory cannot be repaired", REPLACE, told
    if memory.uncorrected:
        # A driver that answers "none" has contained the errors; an older one cannot tell.
        severity = Severity.ERROR if own.recovery is None else Severity.WARNING
        told = f"{memory.uncorrected} uncorrected since the driver was loaded, limit 0"
        yield severity, "a GPU's memory had errors that were not corrected", RESET, told
    if memory.remap_pending:
        told = "a repair waits for the next reset"
        yield Severity.WARNING, "a GPU's memory waits for repair", RESET, told
    yield from _remarks(memory)


def _remarks(memory: Memory) -> Iterator[tuple[Severity, str, str, str]]:
    if memory.uncorrected_ever or memory.rows_remapped:
        told = (
            f"{memory.uncorrected_ever or 0} uncorrected in its life, "
            f"{memory.rows_remapped or 0} rows remapped for that"
        )
        yield Severity.INFO, "a GPU's memory had errors in the past", WATCH, told
    if (memory.corrected or 0) >= MANY_CORRECTED_COUNT:
        told = f"{memory.corrected} corrected, from {MANY_CORRECTED_COUNT} on they are told"
        yield Severity.INFO, "a GPU's memory has many corrected errors", WATCH, told


def _gpus(facts: Mapping[int, Facts], told: Mapping[int, str]) -> str:
    gpus = (
        f"rank {rank} ({facts[rank].host}, GPU {facts[rank].pci}): {words}"
        for rank, words in told.items()
    )
    return listed(gpus, "; ")
