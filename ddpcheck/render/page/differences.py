"""What differs between ranks in their environments, and who has what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import islice
from typing import Any, NamedTuple

from ddpcheck.render.words import clipped, one_line, where
from ddpcheck.report import FoldedFact, Report

FAMILY = "environment/"
# Checks that compare what should be equal: where several know the same, theirs is shown.
FIRST = ("environment/version-mismatch", "environment/variables-differ")
# Who a rank is differs by its nature, and so do readings of a clock.
IDENTITY = frozenset(
    {"host", "place", "machine", "nccl_host", "quota_place", "earliest_s", "latest_s"}
)
MISSING = "(not there)"
MOST_VALUES = 8
LONGEST_VALUE = 300
# Facts of another version may be of any shape.
DEEPEST, MOST_LEAVES = 6, 2_000


class Held(NamedTuple):
    """A value, who has it, and whether fewer ranks have it than have the most frequent one."""

    value: str
    who: str
    is_odd: bool


class Difference(NamedTuple):
    """One thing that ranks do not have alike; ``left`` is how many further values there are."""

    name: str
    check: str
    values: Sequence[Held]
    left: int
    is_amount: bool


def differences(report: Report) -> list[Difference]:
    """Return what differs in the facts of the checks of the environment, settings before amounts."""
    checks = [check for check in report.facts if check.startswith(FAMILY)]
    found: dict[tuple[str, str], Difference] = {}
    for check in sorted(checks, key=lambda each: (each not in FIRST, each)):
        for difference in _of_check(check, report.facts[check]):
            # Several checks read the same version or variable.
            key = (difference.name.rpartition(".")[2], str(difference.values))
            found.setdefault(key, difference)
    return sorted(found.values(), key=lambda each: each.is_amount)


def _of_check(check: str, facts: Sequence[FoldedFact]) -> Iterator[Difference]:
    if len(facts) == 1:
        return
    flat = [(fact.ranks, dict(islice(_leaves(fact.value), MOST_LEAVES))) for fact in facts]
    for name in dict.fromkeys(name for _, leaves in flat for name in leaves):
        ranks_of: dict[str, list[int]] = {}
        for ranks, leaves in flat:
            ranks_of.setdefault(_told(leaves.get(name, MISSING)), []).extend(ranks)
        if len(ranks_of) > 1:
            is_amount = all(_is_amount(leaves.get(name)) for _, leaves in flat)
            yield _difference(name, check, ranks_of, is_amount)


def _leaves(value: Any, name: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    if name.rpartition(".")[2] in IDENTITY:
        return
    if isinstance(value, Mapping) and depth < DEEPEST:
        for key, member in value.items():
            yield from _leaves(member, f"{name}.{key}".lstrip("."), depth + 1)
    else:
        yield name, value


def _told(value: Any) -> str:
    # Two long values may differ at their ends alone, and still are two.
    text = str(value)
    if len(text) <= LONGEST_VALUE:
        return one_line(text)
    digest = sha256(text.encode(errors="backslashreplace")).hexdigest()[:8]
    return f"{clipped(one_line(text[:LONGEST_VALUE]), LONGEST_VALUE)}... ({len(text)} characters, sha256 {digest})"


def _is_amount(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _difference(
    name: str, check: str, ranks_of: Mapping[str, Sequence[int]], is_amount: bool
) -> Difference:
    ordered = sorted(ranks_of, key=lambda value: -len(ranks_of[value]))
    most = len(ranks_of[ordered[0]])
    values = [
        Held(value, where(ranks_of[value], {}), len(ranks_of[value]) < most)
        for value in ordered[:MOST_VALUES]
    ]
    return Difference(name, check, values, len(ordered) - len(values), is_amount)
