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


def slow_groups(groups: Mapping[int, Sequence[Group]], least_ratio: float) -> list[SlowGroup]:
    """Return the groups below ``least_ratio`` of the median of the better half of their split.

    A group is as slow as its slowest rank saw it.
    """
    took_s: dict[tuple[Split, tuple[int, ...], int], float] = {}
    for own in groups.values():
        for each in own:
            key = each.split, each.ranks, each.size_bytes
            took_s[key] = max(took_s.get(key, 0.0), each.took_s)
    speeds = {
        (split, ranks): bus_gbps(KIND, len(ranks), size_bytes, seconds)
        for (split, ranks, size_bytes), seconds in sorted(took_s.items())
    }
    found: list[SlowGroup] = []
    for split in Split:
        alike = {ranks: gbps for (own, ranks), gbps in speeds.items() if own is split}
        better = sorted(alike.values(), reverse=True)[: (len(alike) + 1) // 2]
        usual = median(better) if better else 0.0
        found += [
            SlowGroup(split, ranks, gbps, usual)
            for ranks, gbps in alike.items()
            if gbps < least_ratio * usual
        ]
    return found
