"""Ranks split one dataset in different ways.

Why it matters
    random_split draws from a random number generator, and so does a permutation by which a script
    cuts its indices, tensors or files in two. Where ranks have seeds of their own, each validates
    on a part of its own, and the others train on it: it looks too good, and nothing says so.
    DistributedSamplers of unlike seeds draw some samples twice, and others never.

What to do
    Draw the split from a generator of its own, with one seed on every rank: random_split and
    torch.randperm take torch.Generator().manual_seed(42), NumPy has numpy.random.default_rng(42),
    Python random.Random(42). Give DistributedSampler one seed, and one epoch, on every rank, as it
    knows the rank by itself. Seeds for augmentation may go on to differ.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context
from ddpcheck.finding import Confidence, Finding, Location, Severity
from ddpcheck.measures.held_out import Mixed, Seen, mixed
from ddpcheck.measures.parts import Split, apart, are_mixed
from ddpcheck.measures.peers import grouped
from ddpcheck.measures.shares import Share, Unlike, unlike
from ddpcheck.measures.sketch import minority
from ddpcheck.measures.words import listed, spans

ONE_SEED = (
    "draw the split from a generator of its own, with the same seed on every rank: "
    "torch.Generator().manual_seed(42), numpy.random.default_rng(42) or random.Random(42)"
)


class Facts(msgspec.Struct, frozen=True):
    """A rank's splits by random_split, those by Subsets of its own, and samples that it has seen.

    ``shares`` are of the DistributedSamplers that it trained by, and ``group`` are the ranks among
    which gradients are averaged.
    """

    splits: tuple[Split, ...]
    own: tuple[Split, ...] = ()
    seen: Seen = Seen()
    shares: tuple[Share, ...] = ()
    group: tuple[int, ...] = ()


class Observer:
    """Notes what is split, and which parts and shares are trained on."""

    def __init__(self, ctx: Context) -> None:
        from ddpcheck.watch.averaging import Averaging
        from ddpcheck.watch.rows import Rows
        from ddpcheck.watch.samplers import Shares
        from ddpcheck.watch.splits import Splits

        self._ctx = ctx
        self._splits = Splits()
        self.on_split, self.on_chosen, self.on_epoch = self._splits.handlers
        self.parts = (Rows(), Shares(), Averaging())

    def facts(self) -> Facts:
        """Return what was seen; raises Skip where no script is watched."""
        self._ctx.require_watch()
        splits, (rows, shares, averaging) = self._splits, self.parts
        seen = rows.seen()
        return Facts(splits.drawn(), splits.own(), seen, shares.taken(), averaging.ranks)


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
    if not any(each.severity is Severity.ERROR for each in found):
        found = _by_samples(facts, found[0].location if found else None) or found
    return [*_by_shares(facts), *found]


def _by_shares(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for each line of samplers whose shares overlap, by group."""
    groups = grouped({rank: own.group for rank, own in facts.items() if own.group})
    every = [{rank: facts[rank].shares for rank in ranks} for ranks in groups.values()]
    return [_of_shares(found) for shares in every for found in unlike(shares)]


def _of_shares(found: Unlike) -> Finding:
    values = listed(f"rank {rank}: {value}" for rank, value in found.values.items())
    return Finding(
        title="DistributedSamplers give the ranks shares that overlap",
        message=f"of {found.samples} samples, each rank is to draw others, but the samplers' "
        f"{found.option} differs ({values}): ranks draw some twice, and nobody draws others",
        fix=f"give DistributedSampler the same {found.option} on every rank",
        ranks=tuple(found.values),
        confidence=Confidence.HIGH,
        location=found.location,
    )


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
