"""The replicas of the model differ between ranks.

Why it matters
    Data-parallel training is one training only as long as every rank holds the same
    parameters. Replicas that drift apart raise no error: the loss still falls, and the
    checkpoint holds whatever rank 0 happened to become.

What to do
    Run forward through the wrapped model, never through ``.module``. Wrap after the last
    change to ``requires_grad`` and to the modules. Load a checkpoint on every rank, before
    wrapping. Step the optimizer only after a backward pass that was not in ``no_sync``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.measures.peers import grouped
from ddpcheck.measures.sketch import Difference, Sketch, first_apart, first_difference

if TYPE_CHECKING:
    import torch

    from ddpcheck.target.live import Trained

# Replicas are equal bit by bit; where kernels are not deterministic, but for some last places.
ROUNDING_UNITS = 1.0
GRADIENT_STEPS = 2  # a gradient that misses a bucket in one step raises in the next


class Facts(msgspec.Struct, frozen=True):
    """Sketches by parameter name, in model order; gradients by step.

    ``unit`` is the rounding unit (eps) of the coarsest parameter dtype. ``group`` are the ranks that
    DDP keeps alike, empty without DDP. ``norms`` digests all norms at the start and after each step.
    """

    unit: float
    before: dict[str, Sketch]
    gradients: list[dict[str, Sketch]]
    after: dict[str, Sketch]
    steps: int
    group: tuple[int, ...] = ()
    norms: tuple[str, ...] = ()


class Observer:
    """Sketches parameters before and after, and the gradients of the first steps."""

    def __init__(self, ctx: Context) -> None:
        self._group = () if ctx.watches else tuple(range(ctx.world_size))
        self._live: Trained | None = None
        self._unit = 0.0
        self._before: dict[str, Sketch] = {}
        self._gradients: list[dict[str, Sketch]] = []
        self._steps = 0

    def on_built(self, live: Trained) -> None:
        """Sketch the parameters that training starts from."""
        from ddpcheck.watch.replicas import Norms, coarsest_unit, group_of, replicated

        self._live = live
        if live.ddp is not None:
            self._group = group_of(live.ddp)
        self._unit = coarsest_unit(live.module)
        self._before = self._sketch(lambda parameter: parameter)
        self._norms = Norms([each for _, each in replicated(live)])

    def on_gradients(self, step: int) -> None:
        """Sketch what the optimizer is about to use."""
        if step < GRADIENT_STEPS:
            self._gradients.append(self._sketch(lambda parameter: parameter.grad))

    def on_step(self, step: int) -> None:
        """Count the step, and keep what tells whether replicas are alike after it."""
        self._steps = step + 1
        self._norms.note()

    def facts(self) -> Facts:
        """Return the sketches, with those of the parameters as they are now."""
        after = self._sketch(lambda parameter: parameter)
        told = (self._unit, self._before, self._gradients, after, self._steps, self._group)
        return Facts(*told, self._norms.digests())

    def _sketch(self, pick: Callable[[torch.Tensor], torch.Tensor | None]) -> dict[str, Sketch]:
        from ddpcheck.target.sketch import sketch_all
        from ddpcheck.watch.replicas import replicated

        if self._live is None:
            raise Skip("the target was not built")
        return sketch_all((name, pick(parameter)) for name, parameter in replicated(self._live))


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return one finding for each group: the earliest moment at which its replicas differ."""
    groups = grouped({rank: own.group for rank, own in facts.items()})
    return [each for ranks in groups.values() for each in _judged({r: facts[r] for r in ranks})]


def _judged(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return the finding for one group, if there is one.

    Gradients that differ are no fault by themselves (an optimizer may average later): they
    are the cause when parameters differ afterwards.
    """
    before = first_difference({rank: fact.before for rank, fact in facts.items()})
    if before:
        return [_finding(facts, before, "parameters differ before the first step", "parameter")]
    after = first_difference({rank: fact.after for rank, fact in facts.items()})
    if not after or len({fact.steps for fact in facts.values()}) > 1:
        return []  # a rank that stopped in another step is elsewhere: gradients/step-raised
    compared = min(len(fact.gradients) for fact in facts.values())
    for step in range(compared):
        cause = first_difference({rank: fact.gradients[step] for rank, fact in facts.items()})
        if cause:
            title = f"gradients of step {step} are not synchronized"
            return [_finding(facts, cause, title, "gradient of")]
    though = f", though gradients were equal in the first {compared}" if compared else ""
    # Where norms differ from the start, it is GPUs of several models that add them up.
    since = first_apart({rank: fact.norms for rank, fact in facts.items()})
    when = f"from step {since - 1} on" if since else f"after {facts[min(facts)].steps} steps"
    return [_finding(facts, after, f"parameters differ {when}{though}", "parameter")]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return what was compared."""
    own = next(iter(facts.values()))
    return f"{len(own.after)} parameters compared on {len(facts)} ranks over {own.steps} steps"


def _finding(facts: Mapping[int, Facts], found: Difference, title: str, what: str) -> Finding:
    limit = ROUNDING_UNITS * max(fact.unit for fact in facts.values())
    # Without DDP nobody says that these ranks hold one model: stages of a pipeline do not.
    rounding = found.relative <= limit or not next(iter(facts.values())).group
    return Finding(
        title=title,
        message=f"{what} {found.name} is the first of {found.differing} that differ; relative "
        f"difference {found.relative:.1e}, limit {limit:.0e}",
        fix="see that every forward runs through the wrapped model, that nothing changes "
        "requires_grad or the parameters after wrapping, and that all ranks load the checkpoint",
        ranks=found.ranks,
        severity=Severity.INFO if rounding else Severity.ERROR,
        confidence=Confidence.LOW if rounding else Confidence.HIGH,
        evidence={"parameter": found.name, "relative_difference": found.relative},
    )
