"""Ranks split one dataset in different ways.

Why it matters
    random_split draws from the random number generator, and so does a permutation of which Subsets
    are made. Where ranks have seeds of their own, each rank has a validation part of its own, and
    the others train on it: the validation looks too good, and nothing says so.

What to do
    Give random_split, or torch.randperm, a generator of one seed:
    generator=torch.Generator().manual_seed(42), on every rank. Seeds for augmentation may go on to
    differ.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import msgspec

from ddpcheck.check import Context
from ddpcheck.finding import Confidence, Finding, Location, Severity
from ddpcheck.measures.digests import short_digest
from ddpcheck.measures.sketch import minority
from ddpcheck.measures.words import spans

if TYPE_CHECKING:
    from ddpcheck.watch.feeds import Feed
    from ddpcheck.watch.subsets import Parts


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


class Facts(msgspec.Struct, frozen=True):
    """A rank's splits by random_split, and those by Subsets of its own, each in order."""

    splits: tuple[Split, ...]
    own: tuple[Split, ...] = ()


class Observer:
    """Notes each random_split, the script's own Subsets, and which parts are loaded by shares."""

    def __init__(self, ctx: Context) -> None:
        from ddpcheck.watch.subsets import Subsets

        self._ctx = ctx
        self._splits: list[Split] = []
        self._parts: list[set[int]] = []
        self._shared: set[int] = set()
        self._subsets = Subsets()
        self.on_chosen = self._subsets.add

    def on_split(self, dataset: Any, parts: Any, location: Location | None) -> None:
        """Note which samples went where."""
        self._subsets.leave_out(parts)
        indices = [list(part.indices) for part in parts]
        lengths = tuple(map(len, indices))
        self._splits.append(Split(len(dataset), lengths, short_digest(repr(indices)), location))
        self._parts.append({id(part) for part in parts})

    def on_epoch(self, feed: Feed) -> None:
        """Note that a part is loaded by shares."""
        if feed.is_shared:
            self._shared.add(feed.dataset_id)

    def facts(self) -> Facts:
        """Return the splits; raises Skip where no script is watched."""
        self._ctx.require_watch()
        pairs = zip(self._splits, self._parts, strict=True)
        told = (msgspec.structs.replace(s, is_shared=self._is_shared(ids)) for s, ids in pairs)
        return Facts(tuple(told), tuple(map(self._own_split, self._subsets.parts())))

    def _is_shared(self, parts: Iterable[int]) -> bool:
        return not self._shared.isdisjoint(parts)

    def _own_split(self, parts: Parts) -> Split:
        told = (parts.total, tuple(parts.lengths), parts.digest, parts.location)
        return Split(*told, self._is_shared(parts.subsets), tuple(parts.samples))


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for each split of equal lengths whose samples differ between ranks.

    Without a DistributedSampler on a part, ranks may have datasets of their own. Subsets of the
    script's own may be shares: then no rank has a sample in one part that another has in another.
    """
    drawn = _apart({rank: own.splits for rank, own in facts.items()})
    own = _apart({rank: own.own for rank, own in facts.items()})
    return [
        *(_finding(splits, "random_split gives") for splits in drawn),
        *(_finding(each, "Subsets give") for each in own if _are_mixed(each.values())),
    ]


def _apart(splits: Mapping[int, Sequence[Split]]) -> Iterator[dict[int, Split]]:
    """Yield those that are not the same on all ranks, though they have the same lengths."""
    for at in range(min(map(len, splits.values()), default=0)):
        told = {rank: splits[rank][at] for rank in sorted(splits)}
        alike = len({(each.total, each.lengths) for each in told.values()}) == 1
        if alike and len({each.digest for each in told.values()}) > 1:
            yield told


def _are_mixed(splits: Collection[Split]) -> bool:
    """Return whether a sample is in one part of one rank's, and in another part of another's."""
    parts = [set().union(*each) for each in zip(*(own.samples for own in splits), strict=True)]
    return any(not a.isdisjoint(b) for a, b in combinations(parts, 2))


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many splits were compared."""
    count = min((len(own.splits) + len(own.own) for own in facts.values()), default=0)
    return f"{count} splits compared"


def _finding(splits: Mapping[int, Split], who: str) -> Finding:
    odd = minority({rank: each.digest for rank, each in splits.items()})
    first = splits[min(splits)]
    is_shared = any(each.is_shared for each in splits.values())
    sizes = " and ".join(map(str, first.lengths))
    return Finding(
        title=f"{who} the ranks different parts",
        message=f"of {first.total} samples, parts of {sizes}: rank {spans(odd)} has other samples in "
        "them than the rest: what one rank validates on, others train on"
        + ("" if is_shared else ", unless each rank has a dataset of its own"),
        fix="draw the split with generator=torch.Generator().manual_seed(42), the same seed on "
        "every rank",
        ranks=tuple(sorted(splits)),
        severity=Severity.ERROR if is_shared else Severity.INFO,
        confidence=Confidence.HIGH if is_shared else Confidence.LOW,
        location=first.location,
    )
