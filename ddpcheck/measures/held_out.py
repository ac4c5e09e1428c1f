"""Whether ranks train on what other ranks hold out, by digests of the samples themselves."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from itertools import permutations

import msgspec

from ddpcheck.finding import Location

# Of each kind so many samples are kept: those of the smallest digests, the same ones on each rank.
KEPT_COUNT = 128
# Splits drawn independently mix at least a third of what is held out; a few samples that a dataset
# has twice are no mixing.
LEAST_COUNT = 8
LEAST_SHARE = 0.25
# What samples that are alike by themselves have in common, a rank's own parts have in common, too.
LEAST_TIMES = 10


class Seen(msgspec.Struct, frozen=True):
    """Digests of the samples that a rank trained on, and of those that it iterated over besides.

    ``group`` are the ranks of its DDP; ``location`` is where it iterates over the latter.
    """

    trained: tuple[int, ...] = ()
    held_out: tuple[int, ...] = ()
    group: tuple[int, ...] = ()
    location: Location | None = None


class Mixed(msgspec.Struct, frozen=True):
    """Of ``compared`` samples that ranks hold out, others train on ``count``."""

    count: int
    compared: int
    location: Location | None


def mixed(seen: Mapping[int, Seen]) -> Mixed | None:
    """Return how much of what ranks hold out others train on, where they themselves do not."""
    trained = {rank: own.trained for rank, own in seen.items() if own.trained}
    held = {rank: own.held_out for rank, own in seen.items() if own.held_out}
    if not held or len(trained) <= 1:
        return None
    # Beyond the last one that a rank tells of, it may have more.
    limit = min(map(_last, (*trained.values(), *held.values())))
    return _compared(_until(limit, trained), _until(limit, held), seen[min(held)].location)


def _compared(
    trained: Mapping[int, AbstractSet[int]],
    held: Mapping[int, AbstractSet[int]],
    location: Location | None,
) -> Mixed | None:
    of_others: dict[int, AbstractSet[int]] = dict.fromkeys(held, frozenset())
    own = sum(len(trained.get(rank, frozenset()) & held[rank]) for rank in held) / len(held)
    pairs = [(a, b) for a, b in permutations(sorted({*trained, *held}), 2)]
    both = [(a, b) for a, b in pairs if a in trained and b in held]
    for a, b in both:
        of_others[b] = of_others[b] | (trained[a] & held[b])
    mean = sum(len(trained[a] & held[b]) for a, b in both) / len(both)
    count, compared = sum(map(len, of_others.values())), sum(map(len, held.values()))
    if count < LEAST_COUNT or count < LEAST_SHARE * compared or own * LEAST_TIMES > mean:
        return None
    return Mixed(count, compared, location)


def _last(samples: tuple[int, ...]) -> float:
    return max(samples) if len(samples) >= KEPT_COUNT else float("inf")


def _until(limit: float, samples: Mapping[int, tuple[int, ...]]) -> dict[int, frozenset[int]]:
    return {rank: frozenset(s for s in own if s <= limit) for rank, own in samples.items()}
