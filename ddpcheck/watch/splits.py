"""The splits that a script makes of a dataset, and whether their parts are loaded by shares."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from ddpcheck.finding import Location
from ddpcheck.measures.digests import short_digest
from ddpcheck.measures.parts import Split
from ddpcheck.watch.feeds import Feed
from ddpcheck.watch.subsets import Parts, Subsets


class Splits:
    """Notes each random_split, the script's own Subsets, and which parts are loaded by shares."""

    def __init__(self) -> None:
        self._splits: list[Split] = []
        self._made: list[set[int]] = []
        self._shared: set[int] = set()
        self._subsets = Subsets()

    @property
    def handlers(self) -> tuple[Any, Any, Any]:
        """Return what hears of a random_split, of a Subset, and of an iteration."""
        return self.on_split, self._subsets.add, self.on_epoch

    def on_split(self, dataset: Any, parts: Any, location: Location | None) -> None:
        """Note which samples went where."""
        self._subsets.leave_out(parts)
        indices = [list(part.indices) for part in parts]
        lengths = tuple(map(len, indices))
        self._splits.append(Split(len(dataset), lengths, short_digest(repr(indices)), location))
        self._made.append({id(part) for part in parts})

    def on_epoch(self, feed: Feed) -> None:
        """Note that a part is loaded by shares."""
        if feed.is_shared:
            self._shared.add(feed.dataset_id)

    def drawn(self) -> tuple[Split, ...]:
        """Return those by random_split."""
        pairs = zip(self._splits, self._made, strict=True)
        return tuple(msgspec.structs.replace(s, is_shared=self._is_shared(i)) for s, i in pairs)

    def own(self) -> tuple[Split, ...]:
        """Return those by Subsets of the script's own."""
        return tuple(map(self._own_split, self._subsets.parts()))

    def _is_shared(self, parts: Iterable[int]) -> bool:
        return not self._shared.isdisjoint(parts)

    def _own_split(self, parts: Parts) -> Split:
        told = (parts.total, tuple(parts.lengths), parts.digest, parts.location)
        return Split(*told, self._is_shared(parts.subsets), tuple(parts.samples))
