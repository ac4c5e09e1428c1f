"""Ranks split into groups that share no rank: by host, and across all hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from statistics import median

import msgspec

from ddpcheck.measures.bus_bandwidth import bus_gbps
from ddpcheck.measures.peers import grouped

KIND = "all_reduce"


class Split(StrEnum):
    """How the ranks are split."""

    HOSTS = "hosts"  # the ranks of each host
    RAILS = "rails"  # the first ranks of all hosts, the second ones, and so on


class Group(msgspec.Struct, frozen=True):
    """A rank's group in one split, and the seconds of an all-reduce of ``size_bytes`` there.

    All groups of the split did the same at the same time.
    """

    split: Split
    ranks: tuple[int, ...]
    size_bytes: int
    took_s: float


class SlowGroup(msgspec.Struct, frozen=True):
    """A group that is slower than its like, in decimal GB/s of bus bandwidth."""

    split: Split
    ranks: tuple[int, ...]
    gbps: float
    usual_gbps: float


def splits(places: Sequence[str]) -> dict[Split, list[tuple[int, ...]]]:
    """Return the groups of each split, given where each rank is; none where they would not be alike.

    There must be several hosts, with as many ranks each, and more than one.
    """
    hosts = [tuple(ranks) for ranks in grouped(dict(enumerate(places))).values()]
    counts = {len(ranks) for ranks in hosts}
    if len(hosts) == 1 or len(counts) != 1 or counts == {1}:
        return {}
    return {Split.HOSTS: hosts, Split.RAILS: list(zip(*hosts, strict=True))}


def slow_groups(
    groups: Mapping[int, Sequence[Group]],
    kinds: Mapping[int, str],
    least_ratios: Mapping[Split, float],
) -> list[SlowGroup]:
    """Return the groups below their split's ratio of the median of the better half of their like.

    Like are groups of one split whose ranks compute on the same models. A group is as slow as its
    slowest rank saw it.
    """
    found: list[SlowGroup] = []
    alike: dict[tuple[Split, tuple[str, ...]], dict[tuple[int, ...], float]] = {}
    for (split, ranks), gbps in _speeds(groups).items():
        models = tuple(sorted({kinds[rank] for rank in ranks if rank in kinds}))
        alike.setdefault((split, models), {})[ranks] = gbps
    for (split, _), speeds in alike.items():
        better = sorted(speeds.values(), reverse=True)[: (len(speeds) + 1) // 2]
        usual = median(better)
        found += [
            SlowGroup(split, ranks, gbps, usual)
            for ranks, gbps in speeds.items()
            if gbps < least_ratios[split] * usual
        ]
    return found


def _speeds(
    groups: Mapping[int, Sequence[Group]],
) -> dict[tuple[Split, tuple[int, ...]], float]:
    took_s: dict[tuple[Split, tuple[int, ...], int], float] = {}
    for own in groups.values():
        for each in own:
            key = each.split, each.ranks, each.size_bytes
            took_s[key] = max(took_s.get(key, 0.0), each.took_s)
    return {
        (split, ranks): bus_gbps(KIND, len(ranks), size_bytes, seconds)
        for (split, ranks, size_bytes), seconds in sorted(took_s.items())
    }
