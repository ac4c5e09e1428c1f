"""Ranks split one dataset in different ways.

Why it matters
    random_split draws from the random number generator. Where ranks have seeds of their own, each
    rank has a validation part of its own, and the others train on it: the validation looks too
    good, and nothing says so.

What to do
    Give random_split a generator of one seed: generator=torch.Generator().manual_seed(42), on
    every rank. Seeds for augmentation may go on to differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from ddpcheck.check import Context
from ddpcheck.finding import Confidence, Finding, Location, Severity
from ddpcheck.measures.digests import short_digest
from ddpcheck.measures.sketch import minority
from ddpcheck.measures.words import spans

if TYPE_CHECKING:
    from ddpcheck.watch.feeds import Feed


class Split(msgspec.Struct, frozen=True):
    """One split: the dataset's length, those of its parts, a digest of which samples are where.

    ``is_shared`` is whether a DistributedSampler cuts one of the parts up between the ranks: then
    they mean to have the same one.
    """

    total: int
    lengths: tuple[int, ...]
    digest: str
    location: Location | None = None
    is_shared: bool = False


class Facts(msgspec.Struct, frozen=True):
    """A rank's splits, in order."""

    splits: tuple[Split, ...]


class Observer:
    """Notes each random_split, and which parts are loaded by shares."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._splits: list[Split] = []
        self._parts: list[set[int]] = []

    def on_split(self, dataset: Any, parts: Any, location: Location | None) -> None:
        """Note which samples went where."""
        indices = [list(part.indices) for part in parts]
        lengths = tuple(map(len, indices))
        self._splits.append(Split(len(dataset), lengths, short_digest(repr(indices)), location))
        self._parts.append({id(part) for part in parts})

    def on_epoch(self, feed: Feed) -> None:
        """Note that a part is loaded by shares."""
        for at, parts in enumerate(self._parts):
            if feed.is_shared and feed.dataset_id in parts:
                self._splits[at] = msgspec.structs.replace(self._splits[at], is_shared=True)

    def facts(self) -> Facts:
        """Return the splits; raises Skip where no script is watched."""
        self._ctx.require_watch()
        return Facts(tuple(self._splits))


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for each split of equal lengths whose samples differ between ranks.

    Without a DistributedSampler on a part, ranks may have datasets of their own.
    """
    count = min((len(own.splits) for own in facts.values()), default=0)
    found = ({rank: facts[rank].splits[at] for rank in sorted(facts)} for at in range(count))
    return [
        _finding(splits)
        for splits in found
        if len({(each.total, each.lengths) for each in splits.values()}) == 1
        and len({each.digest for each in splits.values()}) > 1
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many splits were compared."""
    return f"{min((len(own.splits) for own in facts.values()), default=0)} splits compared"


def _finding(splits: Mapping[int, Split]) -> Finding:
    odd = minority({rank: each.digest for rank, each in splits.items()})
    first = splits[min(splits)]
    is_shared = any(each.is_shared for each in splits.values())
    sizes = " and ".join(map(str, first.lengths))
    return Finding(
        title="random_split gives the ranks different parts",
        message=f"of {first.total} samples, parts of {sizes}: rank {spans(odd)} has other samples in "
        "them than the rest: what one rank validates on, others train on"
        + ("" if is_shared else ", unless each rank has a dataset of its own"),
        fix="pass generator=torch.Generator().manual_seed(42), with the same seed on every rank",
        ranks=tuple(sorted(splits)),
        severity=Severity.ERROR if is_shared else Severity.INFO,
        confidence=Confidence.HIGH if is_shared else Confidence.LOW,
        location=first.location,
    )
