"""Who stands out among its peers: the ranks that do the same, or should be the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from statistics import median_high
from typing import TypeVar

Value = TypeVar("Value", bound=Hashable)


def slower_than_peers(
    speeds: Mapping[int, float], kinds: Mapping[int, str], least_ratio: float
) -> dict[int, float]:
    """Return the ranks below ``least_ratio`` of the median of their kind, with that median.

    The higher of two middle values counts: of two ranks, the slower one is compared with the
    faster one. A rank that is alone in its kind has no peers.
    """
    groups = grouped({rank: kinds[rank] for rank in speeds})
    middles = {kind: median_high(speeds[rank] for rank in own) for kind, own in groups.items()}
    return {
        rank: middles[kinds[rank]]
        for rank in sorted(speeds)
        if speeds[rank] < least_ratio * middles[kinds[rank]]
    }


def outside_majority(told: Mapping[int, Hashable]) -> tuple[int, ...]:
    """Return the ranks outside the largest group; all of them when no group is the largest."""
    sizes = Counter(told.values())
    (_, most), *others = sizes.most_common(2) or [(None, 0)]
    is_tied = any(size == most for _, size in others)
    return tuple(rank for rank in sorted(told) if is_tied or sizes[told[rank]] < most)


def grouped(told: Mapping[int, Value]) -> dict[Value, list[int]]:
    """Return for each value the ranks that tell it, in their order."""
    groups: dict[Value, list[int]] = {}
    for rank in sorted(told):
        groups.setdefault(told[rank], []).append(rank)
    return groups


def are_linked(ranks: Sequence[int], links: Collection[Sequence[int]]) -> bool:
    """Return whether each of the ranks is linked with the others, or by others, as in a chain."""
    linked = {ranks[0]}
    for _ in links:
        linked.update(rank for link in links if linked & set(link) for rank in link)
    return linked >= set(ranks)
