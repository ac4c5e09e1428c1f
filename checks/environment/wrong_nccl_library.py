"""Another NCCL is loaded than the one torch was built for, or several are.

Why it matters
    LD_LIBRARY_PATH, LD_PRELOAD or another package decide which libnccl a process loads: an upgrade
    then "has no effect", a bug that was fixed is back, or ranks that have loaded different versions
    hang. torch.cuda.nccl.version() tells what torch was built for, and the image's NCCL_VERSION
    what was once installed; only the process itself shows what it has loaded.
What to do
    Remove the other libnccl from LD_LIBRARY_PATH and LD_PRELOAD, and keep one nvidia-nccl package:
    the one that torch asks for (pip show torch). To use a newer NCCL, replace that one everywhere.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.machine.libraries import (
    NCCL,
    loaded,
    nccl_built_for,
    nccl_in_use,
    nccl_version,
    packaged_nccl,
)
from ddpcheck.measures.hosts import host_names
from ddpcheck.measures.versions import Version, version
from ddpcheck.measures.words import listed

CHOOSERS = ("LD_PRELOAD", "LD_LIBRARY_PATH")
ONE = "keep one libnccl: take the others out of LD_LIBRARY_PATH and LD_PRELOAD"


class Facts(msgspec.Struct, frozen=True):
    """The version in use, the loaded libraries with theirs, and what others say it is.

    ``chosen_by`` are the variables that lead to a loaded one, ``packaged`` the nvidia-nccl packages.
    """

    host: str
    in_use: str
    loaded: dict[str, str]
    built_for: str
    packaged: dict[str, str]
    announced: str
    chosen_by: list[str]


def probe(ctx: Context) -> Facts:
    """Return which NCCL this process has loaded."""
    ctx.require_gpu()
    paths = loaded(NCCL)
    if not paths:
        raise Skip("torch has no NCCL library of its own: it is built in, or there is none")
    return Facts(
        host=ctx.host,
        in_use=nccl_in_use(),
        loaded={path: nccl_version(path) for path in paths},
        built_for=nccl_built_for(),
        packaged=packaged_nccl(),
        announced=ctx.environ.get("NCCL_VERSION", ""),
        chosen_by=[name for name in CHOOSERS if _leads(ctx.environ.get(name, ""), paths)],
    )


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return for each deviation the ranks that have it."""
    causes: dict[tuple[str, str, Severity], list[int]] = {}
    for rank, own in sorted(facts.items()):
        for cause in _causes(own):
            causes.setdefault(cause, []).append(rank)
    return [_finding(facts, *cause, tuple(ranks)) for cause, ranks in causes.items()]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return the versions that are loaded."""
    return f"NCCL {listed(sorted({own.in_use or 'unknown' for own in facts.values()}))} in use"


def _leads(value: str, paths: list[str]) -> bool:
    entries = {Path(entry).resolve() for entry in value.replace(" ", ":").split(":") if entry}
    return any({Path(path), Path(path).parent} & entries for path in paths)


def _numbers(told: str) -> Version:
    return version(told)[:3]  # packages may count their own builds in a fourth


def _causes(own: Facts) -> Iterator[tuple[str, str, Severity]]:
    in_use, built_for = _numbers(own.in_use), _numbers(own.built_for)
    if len(own.loaded) > 1:
        yield "several NCCL libraries are loaded at once", ONE, Severity.WARNING
    elif in_use and in_use < built_for:
        fix = f"install the NCCL that torch was built for ({own.built_for}), and {ONE}"
        yield "the loaded NCCL is older than torch was built for", fix, Severity.WARNING
    elif in_use and in_use > built_for:
        fix = "nothing, if you meant to upgrade NCCL; do so on every host"
        yield "the loaded NCCL is newer than torch was built for", fix, Severity.INFO
    others = {_numbers(other) for other in (own.announced, *own.packaged.values()) if other}
    if in_use and others - {_numbers(each) for each in own.loaded.values()}:
        fix = "nothing: believe neither NCCL_VERSION nor the package, but what is loaded"
        yield "NCCL_VERSION or a package names an NCCL that is not loaded", fix, Severity.INFO


def _finding(
    facts: Mapping[int, Facts], title: str, fix: str, severity: Severity, ranks: tuple[int, ...]
) -> Finding:
    own = {rank: facts[rank] for rank in ranks}
    told = sorted({f"{v or 'unknown'} from {p}" for f in own.values() for p, v in f.loaded.items()})
    first = own[ranks[0]]
    named = [f"{name} says {v}" for name, v in first.packaged.items()]
    named += [f"NCCL_VERSION says {first.announced}"] if first.announced else []
    named += [f"{name} leads there" for name in first.chosen_by]
    return Finding(
        title=title,
        message=f"{listed(host_names(own))}: NCCL {first.in_use or 'unknown'} is in use, loaded is "
        f"{listed(told)}; torch was built for " + ", ".join([first.built_for, *named]),
        fix=fix,
        ranks=ranks,
        severity=severity,
        confidence=Confidence.HIGH,
    )
