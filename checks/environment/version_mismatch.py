"""The ranks run different versions of what must be the same.

Why it matters
    Ranks with different torch, CUDA or NCCL builds may hang at their first collective, crash
    in one of them, or train with different numerics on each rank; the message, if one comes,
    names an operation and not the host that was left behind by an upgrade. The image's
    NCCL_VERSION says nothing: what counts is the library that the process has loaded.
What to do
    Install the same environment on every host (one container image, or one lock file), and
    look at PATH, LD_LIBRARY_PATH and the virtual environment of the ranks that differ.
"""

import platform
from collections.abc import Mapping
from importlib import import_module

import msgspec

from ddpcheck.check import Context
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.machine.driver import kernel_driver
from ddpcheck.machine.libraries import NCCL, loaded, nccl_of_torch
from ddpcheck.measures.peers import outside_majority
from ddpcheck.measures.words import listed, spans

# What cannot work together; the rest can, though nobody would choose it.
# Source: torch and NCCL promise no wire compatibility between versions; pickles, which
# broadcast_object_list sends, may not load under another Python 3.x.
MUST_AGREE = frozenset({"python", "torch", "cuda", "nccl"})
LABELS = {
    "python": "Python",
    "python_micro": "Python's patch release",
    "torch": "torch",
    "torch_build": "torch's build",
    "cuda": "torch's CUDA",
    "nccl": "NCCL",
    "cudnn": "cuDNN",
    "driver": "the NVIDIA driver",
    "machine": "the processor architecture",
}
SUMMARIZED = ("python", "torch", "cuda", "nccl", "driver")


class Facts(msgspec.Struct, frozen=True):
    """The versions that one rank runs; what it does not use or cannot tell is left out."""

    host: str
    versions: dict[str, str]
    nccl_library: str = ""


def probe(ctx: Context) -> Facts:
    """Return the versions that this process has loaded, of the GPU's parts only on a GPU."""
    if not ctx.on_gpu:
        return Facts(ctx.host, _software())
    library = next(iter(loaded(NCCL)), "")
    return Facts(ctx.host, {**_software(), **_gpu_software()}, library)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return one finding for each set of ranks that stands out, with all its versions."""
    causes: dict[tuple[int, ...], list[str]] = {}
    for name in LABELS:
        told = {rank: own.versions[name] for rank, own in facts.items() if name in own.versions}
        if len(set(told.values())) > 1:
            causes.setdefault(outside_majority(told), []).append(name)
    return [_finding(facts, ranks, names) for ranks, names in causes.items()]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return the versions that every rank has."""
    common = set.intersection(*(set(own.versions.items()) for own in facts.values()))
    told = dict(common)
    return ", ".join(f"{LABELS[name]} {told[name]}" for name in SUMMARIZED if name in told)


def _software() -> dict[str, str]:
    import torch

    torch_version, _, build = torch.__version__.partition("+")
    return {
        "python": ".".join(platform.python_version_tuple()[:2]),
        "python_micro": platform.python_version(),
        "torch": torch_version,
        "torch_build": f"{build or 'release'} {(torch.version.git_version or '')[:9]}".strip(),
        "cuda": torch.version.cuda or torch.version.hip or "none",
        "machine": platform.machine(),
    }


def _gpu_software() -> dict[str, str]:
    told = {
        "nccl": nccl_of_torch() or "none",
        "cudnn": str(import_module("torch.backends.cudnn").version() or "none"),
        "driver": kernel_driver(),
    }
    return {name: version for name, version in told.items() if version}


def _finding(facts: Mapping[int, Facts], ranks: tuple[int, ...], names: list[str]) -> Finding:
    sure = not MUST_AGREE.isdisjoint(names)
    libraries = {str(rank): facts[rank].nccl_library for rank in facts} if "nccl" in names else {}
    return Finding(
        title=f"not the same on all ranks: {', '.join(LABELS[name] for name in names)}",
        message="; ".join(_told(facts, name) for name in names),
        fix="install the same environment everywhere; look first at "
        + listed(sorted({facts[rank].host for rank in ranks})),
        ranks=ranks,
        severity=Severity.ERROR if sure else Severity.WARNING,
        confidence=Confidence.HIGH if sure else Confidence.MEDIUM,
        evidence={"nccl_library": libraries} if libraries else {},
    )


def _told(facts: Mapping[int, Facts], name: str) -> str:
    groups: dict[str, list[int]] = {}
    for rank in sorted(facts):
        groups.setdefault(facts[rank].versions.get(name, "unknown"), []).append(rank)
    told = (f"{version} on {_named(facts, ranks)}" for version, ranks in groups.items())
    return f"{LABELS[name]} is {listed(told)}"


def _named(facts: Mapping[int, Facts], ranks: list[int]) -> str:
    return f"rank {spans(ranks)} ({listed(sorted({facts[rank].host for rank in ranks}))})"
