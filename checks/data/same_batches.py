"""Ranks train on the same batches.

Why it matters
    Data-parallel ranks that see the same data compute the same gradient several times: the job
    costs as much as many GPUs and trains like one, and nothing says so. The loader lacks a sampler.

What to do
    Give the loader sampler=DistributedSampler(dataset) and no shuffle of its own, or let each rank
    read its own part. Ranks of one tensor-parallel group do need the same batches: give DDP or
    fully_shard the group or mesh of the data-parallel axis alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Location, Severity
from ddpcheck.measures.peers import are_linked, grouped
from ddpcheck.measures.words import spans

if TYPE_CHECKING:
    from ddpcheck.target.live import Trained
    from ddpcheck.watch.batches import Keepsake
    from ddpcheck.watch.feeds import Feed

# One batch may be the same by chance, or on purpose: to see whether a model can learn it.
LEAST_BATCHES_COUNT = 2
Ranks = tuple[int, ...]


class Facts(msgspec.Struct, frozen=True):
    """Digests of the first batches that were trained on, and of the inputs of the model, if seen.

    ``group`` are the ranks among which gradients are averaged, where that was seen. Where FSDP does
    it, ``losses`` are the first ones, and ranks may ``work_together`` on one batch. ``loads`` is
    whether the batches come from a DataLoader: others may be made up for a test. ``parts`` are ranks
    that hold parts of one model: they have to have the same batches. ``by_hand`` are those that the
    script itself averages gradients among.
    """

    batches: tuple[str, ...]
    inputs: tuple[str, ...] = ()
    group: Ranks = ()
    loads: bool = True
    location: Location | None = None
    losses: tuple[float, ...] = ()
    work_together: bool = False
    parts: list[Ranks] = []
    by_hand: Ranks = ()

    def is_like(self, other: Facts) -> bool:
        """Return whether this rank trains on what it loads, by itself, and to the same losses."""
        return self.loads and not self.work_together and self.losses == other.losses


class Observer:
    """Keeps the beginnings of batches that a backward pass followed on."""

    def __init__(self, ctx: Context) -> None:
        from ddpcheck.watch.averaging import Averaging
        from ddpcheck.watch.batches import KEPT_BATCHES, Keepsake, TrainedOn
        from ddpcheck.watch.by_hand import ByHand

        del ctx
        self._keepsake, self._most = Keepsake, KEPT_BATCHES
        self.parts = (Averaging(), TrainedOn(), ByHand())
        self._loads = False
        self._inputs: list[Keepsake] = []

    def on_built(self, live: Trained) -> None:
        """Note whether there is a DataLoader."""
        from torch.utils.data import DataLoader

        self._loads = isinstance(live.loader, DataLoader)

    def on_fed(self, _feed: Feed) -> None:
        """Note that there is one."""
        self._loads = True

    def on_inputs(self, _step: int, inputs: Any) -> None:
        """Look at what goes into the model: a rank may take its part of a batch of all."""
        if len(self._inputs) < self._most:
            self._inputs.append(self._keepsake(inputs))

    def facts(self) -> Facts:
        """Return what was seen; raises Skip where no batch was trained on that tells anything."""
        averaging, trained_on, by_hand = self.parts
        batches = trained_on.digests()
        if not any(batches):
            raise Skip("no batch of a DataLoader was trained on that could be compared")
        return Facts(
            batches=batches,
            inputs=tuple(kept.digest() for kept in self._inputs),
            group=averaging.ranks,
            loads=self._loads,
            location=trained_on.location,
            losses=averaging.read_losses(),
            work_together=averaging.work_together,
            parts=by_hand.parts,
            by_hand=by_hand.ranks,
        )


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for the ranks of a group that train on equal batches, one by one."""
    found: list[Finding] = []
    for group, members in grouped(
        {r: own.group or own.by_hand for r, own in facts.items()}
    ).items():
        count = min(len(facts[rank].batches) for rank in members)
        seen = min(len(facts[rank].inputs) for rank in members)
        alike = grouped(
            {rank: (facts[rank].batches[:count], facts[rank].inputs[:seen]) for rank in members}
        )
        for (batches, _), ranks in alike.items():
            if len(ranks) > 1 and len(set(batches) - {""}) >= LEAST_BATCHES_COUNT:
                is_whole = bool(group) and len(ranks) == len(members)  # or else tensor-parallel
                parts = [each for rank in ranks for each in facts[rank].parts]
                if not facts[ranks[0]].group and are_linked(ranks, parts):
                    continue
                is_sure = is_whole and all(facts[r].is_like(facts[ranks[0]]) for r in ranks)
                found.append(_finding(ranks, facts, count, is_sure=is_sure))
    return found


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many batches were compared."""
    count = min(len(own.batches) for own in facts.values())
    return f"the first {count} batches compared on {len(facts)} rank(s)"


def _finding(ranks: list[int], facts: Mapping[int, Facts], count: int, *, is_sure: bool) -> Finding:
    sure = Severity.ERROR if facts[ranks[0]].group else Severity.WARNING
    return Finding(
        title=f"{len(ranks)} ranks train on the same batches",
        message=f"the first {count} batches are equal bit by bit on ranks {spans(ranks)}"
        + (", among which gradients are averaged" if is_sure else ", which may be meant"),
        fix=f"{'' if is_sure else 'if each of them is to have batches of its own, '}give the loader "
        "sampler=DistributedSampler(dataset), or let each rank read its own part",
        ranks=tuple(ranks),
        severity=sure if is_sure else Severity.INFO,
        confidence=Confidence.HIGH if is_sure else Confidence.LOW,
        location=facts[ranks[0]].location,
    )
