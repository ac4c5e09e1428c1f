"""Which facts a report has room for: all of them, but for thousands of ranks.

A report is attached to tickets and read by people: it stays within a few megabytes. Where the facts
take more, those of the checks that take the most are thinned out: what stays are the ranks that
stand for the others, those that findings name, and some of the rest. The report says how many are
left out; the ranks' own files have them all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import ceil
from typing import NamedTuple

import msgspec

from ddpcheck import jsontext
from ddpcheck.report import FoldedFact

# Indented and with the records of 4096 ranks, this makes a report of less than 5 MB.
MOST_BYTES = 2_000_000
# A rank in a list of ranks takes about as much.
RANK_BYTES = 5


class Told(NamedTuple):
    """The facts of a check, which of them stay in any case, and how many ranks measured it."""

    facts: Sequence[FoldedFact]
    essential_ranks: Collection[int]
    rank_count: int


class Thinned(NamedTuple):
    """The facts by check, as plain values, and of how many ranks none stayed."""

    facts: dict[str, list[FoldedFact]]
    left_out: dict[str, int]


def thinned(told: Mapping[str, Told], most_bytes: int = MOST_BYTES) -> Thinned:
    """Return the facts of all checks, in not much more than ``most_bytes`` of JSON."""
    share = _share([_size(each.facts) for each in told.values()], most_bytes)
    kept = {
        name: fitting(each.facts, each.essential_ranks, share)
        for name, each in told.items()
        if each.facts
    }
    left_out = {name: told[name].rank_count - _ranks(kept[name]) for name in kept}
    return Thinned(
        {name: [_opened(each) for each in facts] for name, facts in kept.items()},
        {name: count for name, count in left_out.items() if count},
    )


def fitting(
    facts: Sequence[FoldedFact], essential_ranks: Collection[int], most_bytes: int = MOST_BYTES
) -> list[FoldedFact]:
    """Return the facts of one check, or as many as fit, those of the essential ranks first."""
    size = _size(facts)
    if size <= most_bytes:
        return list(facts)
    first = set(essential_ranks)
    essential = [each for each in facts if not first.isdisjoint(each.ranks)]
    others = [each for each in facts if first.isdisjoint(each.ranks)]
    rest = _some(others, most_bytes - _size(essential))
    return sorted([*essential, *rest], key=lambda each: each.ranks[0])


def _share(sizes: Sequence[int], most_bytes: int) -> int:
    """Return how much each may have when those that need less leave the rest to the others."""
    left = most_bytes
    for at, size in enumerate(sorted(sizes)):
        share = left // (len(sizes) - at)
        if size > share:
            return share
        left -= size
    return most_bytes


def _some(facts: Sequence[FoldedFact], most_bytes: int) -> Iterator[FoldedFact]:
    """Yield as many as there is room for: what most ranks have, then from all over the ranks."""
    common = [each for each in facts if len(each.ranks) > 1]
    alone = [each for each in facts if len(each.ranks) == 1]
    room = len(alone) * max(0, most_bytes) // max(1, _size(alone))
    step = max(1, ceil(len(alone) / room)) if room else len(alone) + 1
    for each in [*sorted(common, key=lambda own: -len(own.ranks)), *alone[step - 1 :: step]]:
        most_bytes -= _size([each])
        if most_bytes < 0:
            return
        yield each


def _size(facts: Iterable[FoldedFact]) -> int:
    return sum(RANK_BYTES * len(each.ranks) + len(_text(each)) for each in facts)


def _text(fact: FoldedFact) -> bytes:
    value = fact.value
    return value if isinstance(value, bytes) else jsontext.encode(value)


def _ranks(facts: Iterable[FoldedFact]) -> int:
    return sum(len(each.ranks) for each in facts)


def _opened(fact: FoldedFact) -> FoldedFact:
    if isinstance(fact.value, bytes):
        return FoldedFact(fact.ranks, msgspec.json.decode(fact.value))
    return fact
