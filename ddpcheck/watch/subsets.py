"""The Subsets that a script makes of a dataset by itself: parts, where they have nothing in common."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ddpcheck.finding import Location
from ddpcheck.measures.digests import short_digest

KEPT_COUNT = 64
# So many samples of a dataset are compared, the same ones on each rank: 1 of 50 that is in both a
# part here and another one there is missed once in some 30,000.
COMPARED_COUNT = 512
# Knuth, The Art of Computer Programming, 6.4: multiples of it scatter over 32 bits.
SCATTERING, RANGE = 2654435761, 2**32


@dataclass
class Parts:
    """Subsets of one dataset, made one after the other, without a sample in common."""

    total: int
    subsets: list[int] = field(default_factory=list)
    samples: list[tuple[int, ...]] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    digests: list[str] = field(default_factory=list)
    location: Location | None = None

    @property
    def digest(self) -> str:
        """Return the same text for the same parts."""
        return short_digest(" ".join(self.digests))

    def has(self, samples: Iterable[int]) -> bool:
        """Return whether one of these samples is in a part."""
        own = set(samples)
        return any(not own.isdisjoint(each) for each in self.samples)


class Subsets:
    """Gathers the parts of each dataset."""

    def __init__(self) -> None:
        self._open: dict[int, Parts] = {}
        self._made: list[Parts] = []

    def add(self, subset: Any, location: Location | None) -> None:
        """Add a Subset to the parts before it, or begin anew: the next fold, say."""
        indices = _indices(subset)
        if not indices or len(self._made) == KEPT_COUNT:
            return
        total = len(subset.dataset)
        samples = compared(indices, total)
        parts = self._open.get(id(subset.dataset))
        if parts is None or parts.has(samples):
            parts = self._open[id(subset.dataset)] = Parts(total)
            self._made.append(parts)
        parts.subsets.append(id(subset))
        parts.samples.append(samples)
        parts.lengths.append(len(indices))
        parts.digests.append(short_digest(repr(indices)))
        parts.location = location

    def leave_out(self, subsets: Iterable[Any]) -> None:
        """Forget those that random_split has made: it tells of them itself."""
        gone = {id(each) for each in subsets}
        self._made = [each for each in self._made if gone.isdisjoint(each.subsets)]
        self._open = {i: each for i, each in self._open.items() if gone.isdisjoint(each.subsets)}

    def parts(self) -> list[Parts]:
        """Return the datasets' parts, where there are several."""
        return [each for each in self._made if len(each.subsets) > 1]


def compared(indices: Iterable[int], total: int) -> tuple[int, ...]:
    """Return those of the indices that are compared, of a dataset of this length."""
    limit = RANGE * COMPARED_COUNT // max(total, COMPARED_COUNT)
    return tuple(sorted(i for i in indices if i * SCATTERING % RANGE < limit))


def _indices(subset: Any) -> list[int]:
    told = subset.indices
    try:
        return [int(each) for each in (told.tolist() if hasattr(told, "tolist") else told)]
    except (TypeError, ValueError):  # a dataset may be asked for by names
        return []
