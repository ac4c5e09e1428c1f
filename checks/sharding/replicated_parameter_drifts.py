"""A parameter of which the ranks of a tensor-parallel group hold copies drifts apart.

Why it matters
    In a tensor-parallel group matrices are split, and the rest is there on every rank: norms, the
    biases of sums, position tables. What works on a part of the sequence gets a part of its
    gradient. Unless that is summed, each rank goes on with a norm of its own: no error, a loss that
    stays too high, and a checkpoint with one rank's copy.

What to do
    Seed the group alike before the model is made, and give all its ranks the same batches: those of
    the data-parallel axis alone differ. Sum the gradients of such parameters over the group before
    the optimizer's step where each rank works on a part of the sequence, or let DTensor do it:
    SequenceParallel(), or to_local(grad_placements=[Partial()]) in modules of your own.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Location, Severity
from ddpcheck.measures.copies import Copies, Drift, drifts_of_declared, drifts_of_plain
from ddpcheck.measures.copies_causes import Why, cause_of
from ddpcheck.measures.words import counted, spans

Ranks = tuple[int, ...]


class Facts(msgspec.Struct, frozen=True):
    """DTensors by the ranks that hold the same part; under () plain ones, of which nobody says.

    ``joint`` are ranks that share a forward or backward pass by the script's own collectives,
    ``meshes`` those of meshes that DTensors are spread over. ``names`` has what the script calls a parameter.
    ``constants`` are plain ones that had one value all over, ``averaged`` ranks those that FSDP
    averages among; ``losses`` and ``batches`` are the first ones.
    """

    copies: list[Copies]
    steps: int
    joint: list[Ranks]
    meshes: list[Ranks]
    names: dict[str, str]
    constants: list[str] = []
    averaged: Ranks = ()
    losses: tuple[float, ...] = ()
    batches: tuple[str, ...] = ()
    location: Location | None = None


class Observer:
    """Sketches parameters that may be copies before and after, and their first gradients."""

    def __init__(self, ctx: Context) -> None:
        from ddpcheck.watch.averaging import Averaging
        from ddpcheck.watch.batches import TrainedOn
        from ddpcheck.watch.copies import HeldCopies
        from ddpcheck.watch.losses import Losses

        self._ctx = ctx
        averaging = Averaging()
        self.parts = (averaging, Losses(), TrainedOn(), HeldCopies(averaging))

    def facts(self) -> Facts:
        """Return the sketches; raises Skip where nothing was trained."""
        self._ctx.require_watch()
        averaging, losses, trained_on, held = self.parts
        if held.module is None:
            raise Skip("no optimizer made a step")
        return Facts(
            copies=held.told(),
            steps=held.steps,
            joint=sorted(held.joint),
            meshes=held.meshes,
            names=held.names,
            constants=held.constants,
            averaged=averaging.ranks,
            losses=losses.read(),
            batches=trained_on.digests(),
            location=trained_on.location,
        )


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return an error for what DTensor declares to be alike, a warning for what was so at first."""
    if len({own.steps for own in facts.values()}) > 1:
        return []  # one that stopped in another step is elsewhere: gradients/step-raised
    told = [(drifts_of_declared(facts), Severity.ERROR), (drifts_of_plain(facts), Severity.WARNING)]
    found = [_finding(facts, drifts, severity) for drifts, severity in told if drifts]
    # Who started apart, or has other batches, is told so once.
    return found[:1] if found and found[0].evidence["cause"] != Why.GRADIENT else found


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how much was compared."""
    count = sum(len(each.before) for each in next(iter(facts.values())).copies)
    return f"{count} parameters that may be copies of other ranks'"


def _finding(
    facts: Mapping[int, Facts], drifts: Mapping[Ranks, Drift], severity: Severity
) -> Finding:
    group, drift = next(iter(drifts.items()))
    cause = cause_of(facts, group, drift)
    declared = severity is Severity.ERROR
    more = f"; so it is in {counted(len(drifts) - 1, 'more group')}" if len(drifts) > 1 else ""
    odd = {rank for each in drifts.values() for rank in each.difference.ranks}
    every = {rank for ranks in drifts for rank in ranks}
    return Finding(
        title=cause.title,
        message=f"{cause.drifting} is not the same on ranks {spans(group)} after "
        f"{facts[group[0]].steps} steps, though {'its DTensor says so' if declared else 'it was at first'}"
        f": {cause.words}; it is the first of {drift.difference.differing} that differ{more}",
        fix=cause.fix,
        ranks=tuple(sorted(odd if cause.why is Why.GRADIENT else every)),
        severity=severity,
        confidence=Confidence.HIGH if declared else Confidence.MEDIUM,
        location=facts[group[0]].location if cause.why is Why.BATCHES else None,
        evidence={
            "parameter": cause.name,
            "group": list(group),
            "step": drift.step,
            "cause": cause.why,
        },
    )
