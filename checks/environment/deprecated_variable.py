"""A variable is set that the installed torch or NCCL does not read, or soon will not.

Why it matters
    Names come and go with versions: NCCL_IB_GDR_LEVEL has been NCCL_NET_GDR_LEVEL since NCCL 2.4,
    NCCL_BLOCKING_WAIT is TORCH_NCCL_BLOCKING_WAIT since torch 2.2. Some old names are still
    honoured; the others, and names newer than the library, are passed over without a word.
What to do
    Use the name that is shown, and remove the old one. If the new one does not exist yet in the
    installed version, update the library or drop the setting.
"""

from collections.abc import Iterator, Mapping

import msgspec

from ddpcheck.check import Context
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.machine.libraries import reading_versions
from ddpcheck.measures.words import listed, spans
from ddpcheck.variables.renamed import Fate, fate


class Facts(msgspec.Struct, frozen=True):
    """The variables that are out of date, with what became of them; ``also_set`` replace some.

    ``versions`` are those of torch, and of NCCL on a GPU.
    """

    host: str
    versions: dict[str, str]
    dated: dict[str, Fate]
    also_set: tuple[str, ...] = ()


def probe(ctx: Context) -> Facts:
    """Return what the installed versions make of the variables that are set."""
    versions = reading_versions(on_gpu=ctx.on_gpu)
    fates = {name: fate(name, versions) for name in sorted(ctx.environ)}
    dated = {name: each for name, each in fates.items() if each and _matters(name, ctx)}
    also_set = sorted({each.new for each in dated.values() if each.new in ctx.environ})
    return Facts(ctx.host, versions, dated, tuple(also_set))


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return one warning about what is passed over, and one note about what is merely old."""
    return [
        *_finding(facts, "variables that nobody reads any more, or yet", Severity.WARNING),
        *_finding(facts, "variables under their old names", Severity.INFO),
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many variables are out of date."""
    count = len({name for own in facts.values() for name in own.dated})
    return f"variables out of date: {count}" if count else "no variable is out of date"


def _matters(name: str, ctx: Context) -> bool:
    # Without a GPU, nobody makes the groups or the memory that these are about.
    return ctx.on_gpu or ("NCCL_" not in name and "ALLOC_CONF" not in name)


def _severity(own: Facts, name: str) -> Severity:
    became = own.dated[name]
    # A name that is too new is there for other machines; one that has been replaced does no harm.
    is_lost = became.is_ignored and became.new not in own.also_set and "before" not in became.since
    return Severity.WARNING if is_lost else Severity.INFO


def _finding(facts: Mapping[int, Facts], title: str, severity: Severity) -> Iterator[Finding]:
    fates: dict[tuple[str, Fate], list[int]] = {}
    for rank, own in facts.items():
        for name, became in own.dated.items():
            if _severity(own, name) is severity:
                fates.setdefault((name, became), []).append(rank)
    if fates:
        yield Finding(
            title=title,
            message=listed([_told(*key, who) for key, who in fates.items()], "; "),
            fix=listed(dict.fromkeys(_fix(*key) for key in fates)),
            ranks=tuple(sorted({rank for who in fates.values() for rank in who})),
            severity=severity,
            confidence=Confidence.HIGH,
        )


def _told(name: str, became: Fate, ranks: list[int]) -> str:
    said = "is not read" if became.is_ignored else "is an old name, still honoured,"
    return f"{name} {said} {became.since} (rank {spans(ranks)})"


def _fix(name: str, became: Fate) -> str:
    if became.new:
        return f"set {became.new} instead of {name}"
    return f"remove {name}" if became.since.startswith("since") else f"update, or remove {name}"
