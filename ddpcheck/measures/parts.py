"""The parts that ranks split a dataset into, and whether they are the same ones."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations

import msgspec

from ddpcheck.finding import Location


class Split(msgspec.Struct, frozen=True):
    """One split: the dataset's length, those of its parts, a digest of which samples are where.

    ``is_shared`` is whether a DistributedSampler cuts one of the parts up between the ranks: then
    they mean to have the same one. ``samples`` are some of each part, the same ones of the dataset
    on each rank, where the parts are Subsets of the script's own.
    """

    total: int
    lengths: tuple[int, ...]
    digest: str
    location: Location | None = None
    is_shared: bool = False
    samples: tuple[tuple[int, ...], ...] = ()


def apart(splits: Mapping[int, Sequence[Split]]) -> Iterator[dict[int, Split]]:
    """Yield those that are not the same on all ranks, though they have the same lengths."""
    for at in range(min(map(len, splits.values()), default=0)):
        told = {rank: splits[rank][at] for rank in sorted(splits)}
        alike = len({(each.total, each.lengths) for each in told.values()}) == 1
        if alike and len({each.digest for each in told.values()}) > 1:
            yield told


def are_mixed(splits: Collection[Split]) -> bool:
    """Return whether a sample is in one part of one rank's, and in another part of another's."""
    parts = [set().union(*each) for each in zip(*(own.samples for own in splits), strict=True)]
    return any(not a.isdisjoint(b) for a, b in combinations(parts, 2))
