"""Lengths of intervals on one time line."""

from __future__ import annotations

from collections.abc import Iterable

Interval = tuple[float, float]


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """Return disjoint intervals that cover the same points, in order."""
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def length(intervals: Iterable[Interval]) -> float:
    """Return the length of the points covered."""
    return sum(end - start for start, end in union(intervals))


def uncovered(intervals: Iterable[Interval], cover: Iterable[Interval]) -> float:
    """Return the length of the points in ``intervals`` that ``cover`` leaves bare.

    As |A without B| = |A or B| - |B|.
    """
    over = list(cover)
    return length([*intervals, *over]) - length(over)
