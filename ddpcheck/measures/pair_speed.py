"""Which ranks or hosts stand behind slow exchanges between two ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from statistics import median
from typing import TypeVar

import msgspec

Pair = tuple[int, int]
Place = TypeVar("Place", int, str)


class Exchange(msgspec.Struct, frozen=True):
    """Exchanges with a partner: so many bytes each way at once, in so many seconds each."""

    partner: int
    size_bytes: int
    took_s: float


class Slow(msgspec.Struct, frozen=True):
    """A pair that is slower than its like, in decimal GB/s each way."""

    pair: Pair
    gbps: float
    usual_gbps: float


def pair_gbps(exchanges: Mapping[int, tuple[Exchange, ...]]) -> dict[Pair, float]:
    """Return the speed of each pair of ranks, as the one of the two saw it that it took longer."""
    took: dict[Pair, float] = {}
    for rank, own in exchanges.items():
        for each in own:
            pair = (min(rank, each.partner), max(rank, each.partner))
            took[pair] = max(took.get(pair, 0.0), each.took_s / each.size_bytes)
    return {pair: 1e-9 / seconds for pair, seconds in sorted(took.items())}


def slow_pairs(
    speeds: Mapping[Pair, float], places: Mapping[int, str], least_ratio: float
) -> list[Slow]:
    """Return the pairs below ``least_ratio`` of the median of their like.

    Pairs inside a host are like each other, and pairs between two hosts are. A pair that is alone
    of its kind has nothing to be compared with.
    """
    kinds: dict[bool, list[Pair]] = {}
    for pair in speeds:
        kinds.setdefault(places.get(pair[0]) == places.get(pair[1]), []).append(pair)
    found: list[Slow] = []
    for alike in kinds.values():
        usual = _usual(alike, speeds)
        found += [
            Slow(pair, speeds[pair], usual) for pair in alike if speeds[pair] < least_ratio * usual
        ]
    return sorted(found, key=lambda slow: slow.pair)


def _usual(alike: list[Pair], speeds: Mapping[Pair, float]) -> float:
    """Return the median of the better half: one bad rank of three is in two of three pairs."""
    ordered = sorted((speeds[pair] for pair in alike), reverse=True)
    return median(ordered[: (len(ordered) + 1) // 2])


class Culprit(msgspec.Struct, frozen=True):
    """What stands behind slow pairs: a host, whose place is given, a rank, or the way between two."""

    ranks: tuple[int, ...]
    pairs: tuple[Slow, ...]
    place: str = ""


def culprits(
    slow: Sequence[Slow], tried: Collection[Pair], places: Mapping[int, str]
) -> list[Culprit]:
    """Return the fewest hosts that explain slow pairs between hosts, then ranks, then pairs.

    A host, or a rank, explains them when all its pairs are slow and there are several.
    """
    left = {each.pair: each for each in slow}
    between = [pair for pair in tried if places.get(pair[0]) != places.get(pair[1])]
    found: list[Culprit] = []
    for place in _all_slow(between, left, [places.get(rank, "") for rank in range(_end(tried))]):
        own = tuple(rank for rank in sorted(places) if places[rank] == place)
        found.append(Culprit(own, _taken(left, own, between), place))
    guilty = _all_slow(tried, left, list(range(_end(tried))))
    found.extend(Culprit((rank,), _taken(left, (rank,), tried)) for rank in guilty)
    return [*found, *(Culprit(pair, (each,)) for pair, each in left.items())]


def _end(tried: Collection[Pair]) -> int:
    return max((rank for pair in tried for rank in pair), default=-1) + 1


def _all_slow(tried: Collection[Pair], slow: Collection[Pair], places: list[Place]) -> list[Place]:
    """Return the places all of whose pairs are slow, of several, while some pair is not."""
    counts: Counter[Place] = Counter()
    bad: Counter[Place] = Counter()
    for pair in tried:
        for place in {places[rank] for rank in pair}:
            counts[place] += 1
            bad[place] += pair in slow
    if len(slow) >= len(tried):
        return []
    return [place for place, count in counts.items() if count > 1 and bad[place] == count]


def _taken(
    slow: dict[Pair, Slow], ranks: Collection[int], tried: Collection[Pair]
) -> tuple[Slow, ...]:
    """Return the slow pairs of these ranks, and take them out of ``slow``."""
    own = [pair for pair in tried if pair in slow and set(pair) & set(ranks)]
    return tuple(slow.pop(pair) for pair in own)
