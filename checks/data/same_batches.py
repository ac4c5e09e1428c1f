"""Ranks train on the same batches.

Why it matters
    Data-parallel ranks that see the same data, augmented or not, compute like gradients: the job
    costs as much as many GPUs and trains like one, and nothing says so. The loader lacks a sampler.

What to do
    Give the loader sampler=DistributedSampler(dataset) and no shuffle of its own, or let each rank
    read its own part. Ranks of one tensor-parallel group do need the same batches: give DDP or
    fully_shard the group or mesh of the data-parallel axis alone.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Location, Severity
from ddpcheck.measures.peers import are_linked, grouped
from ddpcheck.measures.sampled import Sampled, same_samples
from ddpcheck.measures.words import spans

# One batch may be the same by chance, or on purpose: to see whether a model can learn it.
LEAST_BATCHES_COUNT = 2
FIX = "give the loader sampler=DistributedSampler(dataset); of an IterableDataset let each rank read its own part"
Ranks = tuple[int, ...]


class Facts(msgspec.Struct, frozen=True):
    """Digests of the first batches that were trained on, and of the inputs of the model, if seen.

    ``group`` are the ranks among which gradients are averaged. Where FSDP does it, ``losses`` are the
    first ones, and ranks may ``work_together`` on one batch; ``loads`` is whether a DataLoader gives
    the batches: others may be made up for a test. Ranks that hold ``parts`` of one model have to have
    the same ones. ``by_hand`` are those that the script itself averages gradients among.
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
    sampled: Sampled = Sampled()

    def is_like(self, other: Facts) -> bool:
        """Return whether this rank trains on what it loads, by itself, and to the same losses."""
        return self.loads and not self.work_together and self.losses == other.losses


class Observer:
    """Keeps the beginnings of batches that a backward pass followed on."""

    def __init__(self, ctx: Context) -> None:
        from ddpcheck.watch.averaging import Averaging
        from ddpcheck.watch.batches import Given, TrainedOn
        from ddpcheck.watch.by_hand import ByHand
        from ddpcheck.watch.sampled import SampledOn

        del ctx
        self.parts = (Averaging(), TrainedOn(), ByHand(), Given(), SampledOn())

    def facts(self) -> Facts:
        """Return what was seen; raises Skip where no batch was trained on that tells anything."""
        averaging, trained_on, by_hand, given, sampled_on = self.parts
        batches = trained_on.digests()
        if not any(batches):
            raise Skip("no batch of a DataLoader was trained on that could be compared")
        return Facts(
            batches=batches,
            inputs=given.inputs(),
            group=averaging.ranks,
            loads=given.loads,
            location=trained_on.location,
            losses=averaging.read_losses(),
            work_together=averaging.work_together,
            parts=by_hand.parts,
            by_hand=by_hand.ranks,
            sampled=sampled_on.told(trained_on),
        )


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for the ranks of a group that train on equal batches, one by one."""
    found: list[Finding] = []
    groups = grouped({rank: own.group or own.by_hand for rank, own in facts.items()})
    for group, members in groups.items():
        told = {rank: facts[rank] for rank in members}
        found += _of_equal_batches(group, told) or _of_same_samples(told)
    return found


def _of_equal_batches(group: Ranks, facts: Mapping[int, Facts]) -> list[Finding]:
    found: list[Finding] = []
    count = min(len(own.batches) for own in facts.values())
    seen = min(len(own.inputs) for own in facts.values())
    alike = grouped({r: (own.batches[:count], own.inputs[:seen]) for r, own in facts.items()})
    for (batches, _), ranks in alike.items():
        told, first = {rank: facts[rank] for rank in ranks}, facts[ranks[0]]
        is_told = len(ranks) > 1 and len(set(batches) - {""}) >= LEAST_BATCHES_COUNT
        if is_told and (first.group or not _are_parts(told)):
            is_whole = bool(group) and len(ranks) == len(facts)  # or else tensor-parallel
            is_sure = is_whole and all(own.is_like(first) for own in told.values())
            sure = Severity.ERROR if first.group else Severity.WARNING
            message = f"the first {count} batches are equal bit by bit on ranks {spans(ranks)}"
            message += ", among which gradients are averaged" if is_sure else ", which may be meant"
            found.append(_finding("batches", told, message, sure if is_sure else Severity.INFO))
    return found


def _are_parts(told: Mapping[int, Facts]) -> bool:
    return are_linked(list(told), [part for own in told.values() for part in own.parts])


def _of_same_samples(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding where all ranks of a group change the same samples, each in its own way."""
    sampled = [own.sampled for own in facts.values()]
    count = same_samples(sampled, LEAST_BATCHES_COUNT)
    if not count or len(facts) != len(facts[min(facts)].group):
        return []
    sure = Severity.WARNING if any(own.is_own for own in sampled) else Severity.ERROR
    # Ranks that have one sequence in parts hear of each other in their backward passes.
    severity = Severity.INFO if _are_parts(facts) else sure
    message = f"the first {count} batches are of the same samples of one dataset on ranks "
    message += f"{spans(facts)}, and each has changed them in its own way: by augmentation, say"
    return [_finding("samples", facts, message, severity)]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many batches were compared."""
    count = min(len(own.batches) for own in facts.values())
    return f"the first {count} batches compared on {len(facts)} rank(s)"


def _finding(what: str, told: Mapping[int, Facts], message: str, severity: Severity) -> Finding:
    is_sure = severity is not Severity.INFO
    return Finding(
        title=f"{len(told)} ranks train on the same {what}",
        message=message,
        fix=FIX if is_sure else f"if each of them is to have batches of its own, {FIX}",
        ranks=tuple(told),
        severity=severity,
        confidence=Confidence.HIGH if is_sure else Confidence.LOW,
        location=told[min(told)].location,
    )
