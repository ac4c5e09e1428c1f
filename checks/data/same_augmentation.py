"""Ranks draw the same random numbers for different samples.

Why it matters
    With one seed on all ranks, and nothing else that draws, the random crops, flips, masks and
    noise of a batch are the same on every rank, at the same place of the batch: the job sees a
    fraction of the augmentation that it pays for. Workers do not help: their seeds come from the
    rank's own.

What to do
    Once the model is made, seed each rank for itself: torch.manual_seed(seed + rank), the same for
    random and numpy.random where they are used, and a generator that the dataset keeps, which each
    worker has a copy of (worker_init_fn). Samplers and splits keep a seed common to all: give them
    a generator of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Location, Severity
from ddpcheck.measures.drawn import Alike, Drawn, alike
from ddpcheck.measures.peers import grouped
from ddpcheck.measures.words import listed, spans

if TYPE_CHECKING:
    from ddpcheck.target.live import Trained

CALLS = {
    "torch": "torch.manual_seed(seed + rank)",
    "random": "random.seed(seed + rank)",
    "numpy": "numpy.random.seed(seed + rank)",
    "the dataset's own": "the generator that the dataset keeps by seed + rank",
}


class Facts(msgspec.Struct, frozen=True):
    """What was drawn while a rank's samples were fetched, and the ranks of its DDP.

    ``has_workers`` is whether workers fetched: those that were not forked are not seen.
    """

    draws: tuple[Drawn, ...]
    group: tuple[int, ...] = ()
    has_workers: bool = False
    location: Location | None = None


class Observer:
    """Looks at the random number generators before and after samples are fetched."""

    def __init__(self, ctx: Context) -> None:
        from ddpcheck.watch.draws import Draws

        self._ctx = ctx
        self._live: Trained | None = None
        self._group: tuple[int, ...] = ()
        draws = self._draws = Draws()
        self.on_epoch, self.on_indices, self.on_fed = draws.of_loaders
        self.on_sampling, self.on_sampled, self.on_loss = draws.of_samples

    def on_built(self, live: Trained) -> None:
        """Note who trains together."""
        from ddpcheck.watch.replicas import group_of

        self._live = live
        self._group = group_of(live.ddp) if live.ddp is not None else ()

    def facts(self) -> Facts:
        """Return what was drawn; raises Skip where no DataLoader was trained from."""
        self._ctx.require_watch()
        if self._live is None or self._live.loader == ():
            raise Skip("no batch of a DataLoader was trained on")
        has_workers = bool(getattr(self._live.loader, "num_workers", 0))
        return Facts(tuple(self._draws.seen()), self._group, has_workers, self._draws.loop)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for the ranks of a group that draw alike, fetch by fetch."""
    found: list[Finding] = []
    for ranks in grouped({rank: own.group for rank, own in facts.items()}).values():
        same = alike({rank: facts[rank].draws for rank in ranks})
        found += [_finding(each, facts[each.ranks[0]]) for each in same if len(each.ranks) > 1]
    return found


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return in how many fetches random numbers were drawn."""
    count = max(len({each.place for each in own.draws}) for own in facts.values())
    if not count and any(own.has_workers for own in facts.values()):
        return "no random number was drawn where it could be seen: in forked workers"
    return f"random numbers were drawn in {count} fetches of samples that were looked at"


def _finding(same: Alike, own: Facts) -> Finding:
    where = "in its workers" if own.has_workers else "in its loader"
    message = (
        f"in {same.fetches} of the first fetches the generators ({listed(same.kinds)}) had the same "
        f"states on rank {spans(same.ranks)}, each {where}, and were drawn from for other samples"
    )
    if not same.is_per_sample:
        message += (
            ": fewer draws than samples, which may be a choice for the whole batch that ranks share"
        )
    calls = listed(CALLS[kind] for kind in same.kinds)
    return Finding(
        title=f"{len(same.ranks)} ranks draw the same random numbers for different samples",
        message=message,
        fix=f"seed each rank for itself once the model is made: {calls}; "
        "samplers and splits keep one seed for all",
        ranks=same.ranks,
        severity=Severity.WARNING if same.is_per_sample else Severity.INFO,
        confidence=Confidence.MEDIUM if same.is_per_sample else Confidence.LOW,
        location=own.location,
    )
