"""The job runs a combination of versions that is known to be broken.

Why it matters
    Some releases of torch and NCCL hang or crash in ways that look like a fault of the network or
    of the script. Each entry here was confirmed by those who make the library, or reproduced by us;
    nobody else's job is worth a day of looking for it again.
What to do
    Install a release that has the fix, or use the setting that the finding names.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from platform import machine

import msgspec

from ddpcheck.check import Context
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.machine.libraries import nccl_of_torch
from ddpcheck.measures.hosts import host_names
from ddpcheck.measures.words import listed

SETTINGS = ("TORCH_DISTRIBUTED_DEBUG", "TORCH_NCCL_USE_COMM_NONBLOCKING")


class Facts(msgspec.Struct, frozen=True):
    """What one rank runs; NCCL's version is '' where it is not used, a setting that is not set is left out."""

    host: str
    backend: str
    processor: str
    torch: str
    nccl: str
    settings: dict[str, str]


@dataclass(frozen=True)
class Known:
    """One combination that is known to be broken; ``source`` is where that was confirmed."""

    title: str
    applies: Callable[[Facts], bool]
    told: str
    fix: str
    source: str


KNOWN = (
    Known(
        "ncclCommAbort hangs with NCCL 2.25.1",
        lambda own: own.nccl == "2.25.1",
        "a job that fails does not end: aborting NCCL's communicator hangs",
        "install NCCL 2.26.2 or newer",
        "https://github.com/pytorch/pytorch/issues/149153",
    ),
    Known(
        "torch 2.7.0 with NCCL 2.26 hangs at random",
        lambda own: (
            own.torch == "2.7.0"
            and own.nccl.startswith("2.26.")
            and own.settings.get("TORCH_NCCL_USE_COMM_NONBLOCKING") != "0"
        ),
        "a script that passes device_id to init_process_group hangs now and then",
        "install torch 2.7.1 or newer, or export TORCH_NCCL_USE_COMM_NONBLOCKING=0",
        "https://github.com/pytorch/pytorch/issues/153960",
    ),
    Known(
        "NCCL 2.29.2 can hang on ARM",
        lambda own: own.nccl == "2.29.2" and own.processor in ("aarch64", "arm64"),
        "a compare-and-swap that fails for no reason is not repeated (builds by gcc before 10)",
        "install NCCL 2.29.3 or newer",
        "https://github.com/NVIDIA/nccl/releases/tag/v2.29.3-1",
    ),
    Known(
        # Reproduced: the first backward through DDP on two gloo ranks ends both with SIGSEGV.
        "TORCH_DISTRIBUTED_DEBUG=DETAIL crashes torch 2.13.0 on gloo",
        lambda own: (
            own.torch == "2.13.0"
            and own.backend == "gloo"
            and own.settings.get("TORCH_DISTRIBUTED_DEBUG", "").upper() == "DETAIL"
        ),
        "the first step with DistributedDataParallel ends with a segmentation fault",
        "unset TORCH_DISTRIBUTED_DEBUG, or set it to INFO",
        "reproduced with the wheel of torch 2.13.0 for the CPU",
    ),
)


def probe(ctx: Context) -> Facts:
    """Return the versions and settings that the entries ask for."""
    import torch

    return Facts(
        host=ctx.host,
        backend=ctx.backend,
        processor=machine(),
        torch=torch.__version__.partition("+")[0],
        nccl=nccl_of_torch() if ctx.on_gpu and not torch.version.hip else "",
        settings={name: ctx.environ[name] for name in SETTINGS if name in ctx.environ},
    )


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return for each entry that applies the ranks that it applies to."""
    return [
        Finding(
            title=known.title,
            message=f"{listed(host_names(found))}: torch {own.torch}"
            f"{f', NCCL {own.nccl}' if own.nccl else ''}: {known.told} ({known.source})",
            fix=known.fix,
            ranks=tuple(sorted(found)),
            severity=Severity.WARNING,
            confidence=Confidence.HIGH,
        )
        for known in KNOWN
        if (found := {rank: own for rank, own in facts.items() if known.applies(own)})
        for own in [found[min(found)]]
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many entries there are."""
    return f"none of {len(KNOWN)} known combinations" if not judge(facts) else ""
