"""Which hosts stand behind the pairs of hosts between which something fails."""

from collections.abc import Collection, Mapping
from enum import StrEnum

import msgspec

Pair = tuple[str, str]


class Way(StrEnum):
    """Which way it is that fails, seen from the host that is to blame."""

    BOTH = "to and from"
    TOWARDS = "to"
    OUTWARD = "from"
    BETWEEN = "between"


class Blame(msgspec.Struct, frozen=True):
    """The hosts that explain some of the failing pairs (from, to), and these pairs."""

    way: Way
    places: tuple[str, ...]
    pairs: tuple[Pair, ...]


def blames(failed: Collection[Pair], tried: Collection[Pair]) -> list[Blame]:
    """Return the fewest hosts that explain the failures, the one visited before the visitor.

    Pairs that no single host explains, and all pairs when nothing worked, are blamed on both.
    """
    worked = set(tried) - set(failed)
    towards, outward = set[str](), set[str]()
    if worked:
        towards = {to for _, to in failed} - {to for _, to in worked}
        left = {begin for begin, to in failed if to not in towards}
        outward = left - {begin for begin, _ in worked}
    blamed: dict[Way, set[str]] = {
        Way.BOTH: towards & outward,
        Way.TOWARDS: towards - outward,
        Way.OUTWARD: outward - towards,
    }
    pairs: dict[Way, list[Pair]] = {way: [] for way in Way}
    for pair in sorted(failed):
        pairs[_way(pair, blamed)].append(pair)
    blamed[Way.BETWEEN] = {place for pair in pairs[Way.BETWEEN] for place in pair}
    return [
        Blame(way, tuple(sorted(places)), tuple(pairs[way]))
        for way, places in blamed.items()
        if pairs[way]
    ]


def _way(pair: Pair, blamed: Mapping[Way, Collection[str]]) -> Way:
    begin, to = pair
    if begin in blamed[Way.BOTH] or to in blamed[Way.BOTH]:
        return Way.BOTH
    if to in blamed[Way.TOWARDS]:
        return Way.TOWARDS
    return Way.OUTWARD if begin in blamed[Way.OUTWARD] else Way.BETWEEN
