"""Ranks split one dataset in different ways.

Why it matters
    random_split draws from a random number generator, and so does a permutation by which a script
    cuts its indices, tensors or files in two. Where ranks have seeds of their own, each validates
    on a part of its own, and the others train on it: it looks too good, and nothing says so.

What to do
    Draw the split from a generator of its own, with one seed on every rank: random_split and
    torch.randperm take torch.Generator().manual_seed(42), NumPy has numpy.random.default_rng(42),
    Python random.Random(42). Seeds for augmentation may go on to differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from ddpcheck.check import Context
from ddpcheck.finding import Confidence, Finding, Location, Severity
from ddpcheck.measures.digests import short_digest
from ddpcheck.measures.held_out import Mixed, Seen, mixed
from ddpcheck.measures.parts import Split, apart, are_mixed
from ddpcheck.measures.peers import grouped
from ddpcheck.measures.sketch import minority
from ddpcheck.measures.words import spans

if TYPE_CHECKING:
    from ddpcheck.watch.feeds import Feed
    from ddpcheck.watch.subsets import Parts

ONE_SEED = (
    "draw the split from a generator of its own, with the same seed on every rank: "
    "torch.Generator().manual_seed(42), numpy.random.default_rng(42) or random.Random(42)"
)


class Facts(msgspec.Struct, frozen=True):
    """A rank's splits by random_split, those by Subsets of its own, and samples that it has seen."""

    splits: tuple[Split, ...]
    own: tuple[Split, ...] = ()
    seen: Seen = Seen()


class Observer:
    """Notes each random_split, the script's own Subsets, and which parts are loaded by shares."""

    def __init__(self, ctx: Context) -> None:
        from ddpcheck.watch.rows import Rows
        from ddpcheck.watch.subsets import Subsets

        self._ctx = ctx
        self._splits: list[Split] = []
        self._made: list[set[int]] = []
        self._shared: set[int] = set()
        self._subsets = Subsets()
        self.on_chosen = self._subsets.add
        self._rows = Rows()
        self.parts = (self._rows,)

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

    def facts(self) -> Facts:
        """Return the splits; raises Skip where no script is watched."""
        self._ctx.require_watch()
        pairs = zip(self._splits, self._made, strict=True)
        told = (msgspec.structs.replace(s, is_shared=self._is_shared(ids)) for s, ids in pairs)
        own = tuple(map(self._own_split, self._subsets.parts()))
        return Facts(tuple(told), own, self._rows.seen())

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
    drawn = apart({rank: own.splits for rank, own in facts.items()})
    own = apart({rank: own.own for rank, own in facts.items()})
    found = [
        *(_finding(splits, "random_split gives") for splits in drawn),
        *(_finding(each, "Subsets give") for each in own if are_mixed(each.values())),
    ]
    if any(each.severity is Severity.ERROR for each in found):
        return found
    return _by_samples(facts, found[0].location if found else None) or found


def _by_samples(facts: Mapping[int, Facts], place: Location | None) -> list[Finding]:
    """Return a finding for each group of ranks that train on what others of it hold out."""
    groups = grouped({rank: own.seen.group for rank, own in facts.items() if own.seen.group})
    every = [{rank: facts[rank].seen for rank in ranks} for ranks in groups.values()]
    return [_of_samples(tuple(seen), found, place) for seen in every if (found := mixed(seen))]


def _of_samples(ranks: tuple[int, ...], found: Mixed, place: Location | None) -> Finding:
    return Finding(
        title="ranks train on what other ranks hold out",
        message=f"of {found.compared} samples that ranks iterate over without training on them, "
        f"others train on {found.count}: each rank has split the dataset in its own way",
        fix=ONE_SEED,
        ranks=ranks,
        confidence=Confidence.HIGH,
        location=place or found.location,
    )


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
        fix=ONE_SEED,
        ranks=tuple(sorted(splits)),
        severity=Severity.ERROR if is_shared else Severity.INFO,
        confidence=Confidence.HIGH if is_shared else Confidence.LOW,
        location=first.location,
    )
