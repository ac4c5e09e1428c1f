"""A variable is set that nobody reads; its name looks mistyped.

Why it matters
    NCCL, torch and gloo ask for the names that they know and never look at others: with
    NCCL_SOCKET_IFNAM or NCCL_IB_DISBLE in a launch script, the setting is not made, nothing says
    so, and the job hangs or is slow just as before.
What to do
    Correct the name that is shown. A name without a suggestion may belong to a plug-in or to the
    script itself: then leave it.
"""

from collections.abc import Iterator, Mapping

import msgspec

from ddpcheck.check import Context
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.measures.words import listed, spans
from ddpcheck.variables.registry import PREFIXES_OF_OUR_OWN, near_miss, unknown_names


class Facts(msgspec.Struct, frozen=True):
    """The names that nobody reads, each with the one that was meant, or '' when none is near.

    ``also_set`` are those of the meant names that are set besides.
    """

    host: str
    unknown: dict[str, str]
    also_set: tuple[str, ...] = ()


def probe(ctx: Context) -> Facts:
    """Return the unknown names of this rank's environment."""
    unknown = {name: near_miss(name) for name in unknown_names(ctx.environ)}
    told = {n: near for n, near in unknown.items() if near or n.startswith(PREFIXES_OF_OUR_OWN)}
    also_set = sorted({near for near in told.values() if near in ctx.environ})
    return Facts(ctx.host, told, tuple(also_set))


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return one warning about all mistyped names, and one note about the others."""
    return [*_mistyped(facts), *_unread(facts)]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many names nobody reads."""
    count = len({name for own in facts.values() for name in own.unknown})
    return f"unknown names: {count}" if count else "every name is known"


def _mistyped(facts: Mapping[int, Facts]) -> Iterator[Finding]:
    slips: dict[str, str] = {}
    ranks: dict[str, list[int]] = {}
    for rank, own in facts.items():
        # Where the right name is set, too, the other is a script's own or does no harm.
        for name, near in own.unknown.items():
            if near and near not in own.also_set:
                slips[name] = near
                ranks.setdefault(name, []).append(rank)
    if slips:
        yield Finding(
            title="the name of a variable is mistyped",
            message=listed([f"{name} on rank {spans(ranks[name])}" for name in slips], "; ")
            + ": nobody reads it, and the name that was probably meant is not set",
            fix="rename " + listed([f"{name} to {near}" for name, near in slips.items()]),
            ranks=tuple(sorted({rank for each in ranks.values() for rank in each})),
            severity=Severity.WARNING,
            confidence=Confidence.MEDIUM,
        )


def _unread(facts: Mapping[int, Facts]) -> Iterator[Finding]:
    ranks: dict[str, list[int]] = {}
    for rank, own in facts.items():
        for name, near in own.unknown.items():
            if not near or near in own.also_set:
                ranks.setdefault(name, []).append(rank)
    if ranks:
        yield Finding(
            title="variables that nobody is known to read",
            message=listed([f"{name} on rank {spans(who)}" for name, who in ranks.items()], "; "),
            fix="look the name up, or remove it, unless a plug-in or the script reads it",
            ranks=tuple(sorted({rank for each in ranks.values() for rank in each})),
            severity=Severity.INFO,
            confidence=Confidence.LOW,
        )
