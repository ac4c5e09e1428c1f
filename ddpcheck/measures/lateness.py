"""Who comes late to the collectives of a loop, and whether it is its compute that is slow.

All ranks leave a collective together, so the one that waits the least in it came last: clocks of
different hosts need not agree for that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median, median_low, quantiles

import msgspec

from ddpcheck.measures.peers import grouped


class Turns(msgspec.Struct, frozen=True):
    """The seconds that one rank computed, and then waited in a collective, turn by turn."""

    compute_s: tuple[float, ...]
    wait_s: tuple[float, ...]


class Slower(msgspec.Struct, frozen=True):
    """A rank whose compute takes longer than its peers', by the median over the turns.

    ``excess`` is a part of the peers' time; ``low`` and ``high`` bound the middle half of it.
    ``share`` is that of the turns in which it was slower by half of what counts.
    """

    rank: int
    excess: float
    low: float
    high: float
    share: float


def slower_ranks(
    turns: Mapping[int, Turns], kinds: Mapping[int, str], least_excess: float, least_share: float
) -> list[Slower]:
    """Return the ranks that are slower than the median of their kind, steadily.

    That is by ``least_excess`` in the median over the turns, and by half of it in ``least_share``
    of them. Turns are compared one by one: what slows all ranks for a while slows none of them
    against the others. Of two ranks, each is compared with the faster one.
    """
    found = [
        slower
        for ranks in grouped(kinds).values()
        for slower in _slower_among({rank: turns[rank].compute_s for rank in ranks}, least_excess)
        if slower.share >= least_share
    ]
    return sorted(found, key=lambda slower: slower.rank)


def _slower_among(
    compute_s: Mapping[int, Sequence[float]], least_excess: float
) -> Iterator[Slower]:
    """Yield the ranks that are slower than the median by so much, whether steadily or not."""
    count = min(len(own) for own in compute_s.values())
    usual = [median_low(own[turn] for own in compute_s.values()) for turn in range(count)]
    for rank, own in compute_s.items():
        excess = [took / base - 1 for took, base in zip(own, usual, strict=False)]
        if len(excess) > 1 and median(excess) > least_excess:
            low, middle, high = quantiles(excess, n=4)
            share = sum(each > least_excess / 2 for each in excess) / len(excess)
            yield Slower(rank, middle, low, high, share)


def late_by_s(turns: Mapping[int, Turns]) -> dict[int, float]:
    """Return how long all others waited for each rank, turn by turn, in seconds altogether.

    What a turn's last rank made the earliest one wait counts for the last one, and for nobody
    else.
    """
    late = dict.fromkeys(sorted(turns), 0.0)
    for turn in range(min((len(own.wait_s) for own in turns.values()), default=0)):
        waits = {rank: own.wait_s[turn] for rank, own in turns.items()}
        last = min(waits, key=lambda rank: waits[rank])
        late[last] += max(waits.values()) - waits[last]
    return late
