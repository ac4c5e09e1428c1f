"""Who comes late to the collectives of a loop, and whether it is its compute that is slow.

All ranks leave a collective together, so the one that waits the least in it came last: clocks of
different hosts need not agree for that.

What else runs on a machine slows now the one rank and now the other, by more than the tenth that
is to be found. So of each stretch of turns only its pace counts, and the median over the stretches
decides. On cores the pace is that of the fastest turn, for all else slows it; on a GPU, whose clock
goes up and down, that of the middle one. Measured on a virtual machine of two cores whose speeds differ by up to a half for
a quarter of a second: 20 stretches of 20 turns, some 3 s, tell a tenth from nothing in 200 of 200
draws; with 8 of them one of eight goes wrong.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from math import exp, log, sqrt
from statistics import median, quantiles

import msgspec

from ddpcheck.measures.peers import grouped

STRETCH_TURNS = 20
# The standard error of a median is 1.25 times that of a mean of normal values, and the median
# absolute deviation times 1.48 estimates their standard deviation (Huber, Robust Statistics).
MEDIAN_ERROR, NORMAL_DEVIATIONS = 1.25, 1.4826
CLEAR_ERRORS, SURE_ERRORS = 2.0, 3.0


class Turns(msgspec.Struct, frozen=True):
    """What one rank's turns of compute and a collective took, in seconds.

    ``pace_s``: the compute of a turn in each stretch of them; ``mean_s``: that of all turns;
    ``wait_s``: what it waited in the collectives of the first turns.
    """

    pace_s: tuple[float, ...]
    mean_s: float
    wait_s: tuple[float, ...]


class Slower(msgspec.Struct, frozen=True):
    """A rank whose compute takes longer than its peers', by a part of theirs.

    ``low`` and ``high`` bound the middle half of the stretches; ``is_steady``: it is slower in most
    of them, and not only in all turns together.
    """

    rank: int
    excess: float
    low: float
    high: float
    is_steady: bool


def slower_ranks(
    turns: Mapping[int, Turns], kinds: Mapping[int, str], steady: float, altogether: float
) -> list[Slower]:
    """Return the ranks that are slower than the median of the others of their kind.

    By ``steady`` in the median over the stretches, and beyond its error; or by ``altogether`` over
    all turns.
    """
    found: list[Slower] = []
    for ranks in grouped(kinds).values():
        excess = log_ratios({rank: turns[rank].pace_s for rank in ranks})
        whole = log_ratios({rank: (turns[rank].mean_s,) for rank in ranks})
        for rank in excess:
            beyond = median(excess[rank]) - log(1 + steady)
            if beyond > CLEAR_ERRORS * error_of_median(excess[rank]):
                found.append(_slower(rank, excess[rank], is_steady=True))
            elif whole[rank][0] > log(1 + altogether):
                found.append(_slower(rank, whole[rank], is_steady=False))
    return sorted(found, key=lambda slower: slower.rank)


def is_clear(
    pace_s: Mapping[int, Sequence[float]], kinds: Mapping[int, str], steady: float
) -> bool:
    """Return whether more stretches would hardly change who is slower by so much."""
    ratios = [
        own
        for ranks in grouped(kinds).values()
        for own in log_ratios({rank: pace_s[rank] for rank in ranks}).values()
    ]
    return all(
        abs(median(own) - log(1 + steady)) > SURE_ERRORS * error_of_median(own) for own in ratios
    )


def log_ratios(took_s: Mapping[int, Sequence[float]]) -> dict[int, list[float]]:
    """Return the logarithm of each rank's time in units of the others' median, one by one.

    Empty where there is one rank. A logarithm, so that of two ranks none is favoured.
    """
    count = min(len(own) for own in took_s.values())
    if len(took_s) == 1 or not count:
        return {}
    # Sorted once, not once a rank: there may be thousands.
    ordered = [sorted(own[at] for own in took_s.values()) for at in range(count)]
    return {
        rank: [log(own[at] / median_without(ordered[at], own[at])) for at in range(count)]
        for rank, own in took_s.items()
    }


def median_without(ordered: Sequence[float], one: float) -> float:
    """Return the median of sorted values but ``one`` of them, of which there are two or more."""
    place = bisect_left(ordered, one)
    left = len(ordered) - 1
    low, high = ((left - 1) // 2, left // 2)
    return (ordered[low + (low >= place)] + ordered[high + (high >= place)]) / 2


def error_of_median(values: Sequence[float]) -> float:
    """Return the standard error of the median of these values; infinite for one value."""
    middle = median(values)
    deviation = NORMAL_DEVIATIONS * median(abs(each - middle) for each in values)
    return MEDIAN_ERROR * deviation / sqrt(len(values)) if len(values) > 1 else float("inf")


def _slower(rank: int, ratios: Sequence[float], *, is_steady: bool) -> Slower:
    quarters = quantiles(ratios, n=4) if len(ratios) > 1 else [ratios[0]] * 3
    low, middle, high = (exp(each) - 1 for each in quarters)
    return Slower(rank, middle, low, high, is_steady)


def late_by_s(turns: Mapping[int, Turns]) -> dict[int, float]:
    """Return how long all others waited for each rank, turn by turn, in seconds altogether.

    What a turn's last rank made the earliest one wait counts for the last one, and for nobody
    else.
    """
    ranks = sorted(turns)
    late = dict.fromkeys(ranks, 0.0)
    # As rows of plain numbers: there may be thousands of ranks.
    for waits in zip(*(turns[rank].wait_s for rank in ranks), strict=False):
        least = min(waits)
        late[ranks[waits.index(least)]] += max(waits) - least
    return late
