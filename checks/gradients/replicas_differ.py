"""The replicas of the model differ between ranks.

Why it matters
    It is one training only while every rank holds the same parameters. Replicas that drift apart
    raise no error: the loss still falls, and the checkpoint is whatever rank 0 happened to become.

What to do
    Run forward through the wrapped model, never through ``.module``. Wrap after the last change to
    ``requires_grad`` and to the modules. Load a checkpoint on every rank, before wrapping. Step
    the optimizer only after a backward pass that was not in ``no_sync``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.measures.by_hand import found_without_ddp
from ddpcheck.measures.deeds import UNKNOWN_FIX, Deed, cause_of_drift
from ddpcheck.measures.drift import ROUNDING_UNITS, Drift, first_drift, odd_ones
from ddpcheck.measures.moments import Moments
from ddpcheck.measures.peers import grouped
from ddpcheck.measures.sketch import Sketch
from ddpcheck.measures.unwrapped import Unwrapped

if TYPE_CHECKING:
    from ddpcheck.target.live import Trained
    from ddpcheck.watch.replicas import Replica

GRADIENT_STEPS = 2  # a gradient that misses a bucket in one step raises in the next


class Facts(msgspec.Struct, frozen=True):
    """Sketches by parameter name, in model order; gradients by step, empty where not known.

    ``unit`` is the rounding unit (eps) of the coarsest parameter dtype. ``group`` are the ranks that
    DDP keeps alike, empty without DDP. ``norms`` digests all norms at the start and after each step.
    ``deeds`` are what a script did that may set them apart; ``apart_by_design`` is averaging, later.
    """

    unit: float
    before: dict[str, Sketch]
    gradients: list[dict[str, Sketch]]
    after: dict[str, Sketch]
    steps: int
    group: tuple[int, ...] = ()
    norms: tuple[str, ...] = ()
    deeds: tuple[Deed, ...] = ()
    apart_by_design: bool = False
    unwrapped: Unwrapped = Unwrapped()


class Observer:
    """Sketches parameters before and after, and the gradients of the first steps."""

    def __init__(self, ctx: Context) -> None:
        from ddpcheck.watch.by_hand import ByHand, SummedTooSoon
        from ddpcheck.watch.deeds import Deeds

        self._deeds, self._by_hand, self._too_soon = Deeds(), ByHand(), SummedTooSoon()
        self.parts = (self._deeds, self._by_hand, self._too_soon) if ctx.watches else ()
        self._group = () if ctx.watches else tuple(range(ctx.world_size))
        self._unit, self._steps = 0.0, 0
        self._before: dict[str, Sketch] = {}
        self._gradients: list[dict[str, Sketch]] = []
        self._replica: Replica | None = None

    def on_built(self, live: Trained) -> None:
        """Sketch the parameters that training starts from."""
        from ddpcheck.watch.replicas import Replica, coarsest_unit, group_of

        if live.ddp is not None:
            self._group = group_of(live.ddp)
        self._unit = coarsest_unit(live.module)
        self._replica = Replica(live)
        self._before = self._replica.sketch()
        if self.parts and live.ddp is None:
            self.on_gradients(0)  # the optimizer is about to make its first step

    def on_gradients(self, step: int) -> None:
        """Sketch what the optimizer is about to use."""
        if step < GRADIENT_STEPS and self._replica is not None:
            self._gradients.append(self._replica.sketch_gradients())

    def on_step(self, step: int) -> None:
        """Count the step, and keep what tells whether replicas are alike after it."""
        self._steps = step + 1
        if step == len(self._gradients) < GRADIENT_STEPS:  # nothing was known of them
            self._gradients.append({})
        if self._replica is not None:
            self._replica.note()

    def facts(self) -> Facts:
        """Return the sketches, with those of the parameters as they are now."""
        if self._replica is None:
            raise Skip("the target was not built")
        after = self._replica.sketch()
        told = (self._unit, self._before, self._gradients, after, self._steps, self._group)
        norms, by_design = self._replica.told()
        unwrapped = self._by_hand.told(self._too_soon)
        return Facts(*told, norms, self._deeds.kept, by_design, unwrapped)

    def moments(self, since: int) -> Moments | None:
        """Return what is known by now of the replica, from a moment on."""
        return self._replica.moments(self._group, since) if self._replica else None


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return one finding for each group: the earliest moment at which its replicas differ."""
    groups = grouped({rank: own.group or own.unwrapped.ranks for rank, own in facts.items()})
    alike = [{rank: facts[rank] for rank in ranks} for ranks in groups.values()]
    return [found for own in alike if (found := _found(own))]


def _found(own: Mapping[int, Facts]) -> Finding | None:
    if not next(iter(own.values())).group:
        return found_without_ddp(own)
    drift = first_drift(own)
    return _finding(own, drift) if drift else None


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return what was compared."""
    own = next(iter(facts.values()))
    if own.apart_by_design:
        return "not judged: replicas are averaged every so many steps, and differ in between"
    return f"{len(own.after)} parameters compared on {len(facts)} ranks over {own.steps} steps"


def _finding(facts: Mapping[int, Facts], drift: Drift) -> Finding:
    found = drift.found
    cause = cause_of_drift(facts, drift)
    limit = ROUNDING_UNITS * max(fact.unit for fact in facts.values())
    ranks, why = (cause.ranks, cause.words) if cause else odd_ones(found.ranks, facts)
    rounding = found.relative <= limit
    return Finding(
        title=drift.title,
        message=f"{drift.what} {found.name} is the first of {found.differing} that differ; relative "
        f"difference {found.relative:.1e}, limit {limit:.0e}{f'; {why}' if why else ''}",
        fix=cause.fix if cause else UNKNOWN_FIX,
        ranks=ranks,
        location=cause.location if cause else None,
        severity=Severity.INFO if rounding else Severity.ERROR,
        confidence=Confidence.LOW if rounding else Confidence.HIGH,
        evidence={"parameter": found.name, "relative_difference": found.relative},
    )
