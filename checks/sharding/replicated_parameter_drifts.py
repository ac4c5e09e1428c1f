"""A parameter of which the ranks of a tensor-parallel group hold copies drifts apart.

Why it matters
    In a tensor-parallel group matrices are split, and the rest is there on every rank: norms, the
    biases of sums, position tables. What works on a part of the sequence gets a part of its
    gradient. Unless that is summed, each rank goes on with a norm of its own: no error, a loss that
    stays too high, and a checkpoint with one rank's copy.

What to do
    Sum the gradients of such parameters over the group before the optimizer's step, or let DTensor
    do it: SequenceParallel(), or to_local(grad_placements=[Partial()]) in modules of your own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.measures.copies import Copies, Drift, drifts_of_declared, drifts_of_plain
from ddpcheck.measures.sketch import Sketch
from ddpcheck.measures.words import spans

if TYPE_CHECKING:
    import torch
    from torch import nn

    from ddpcheck.target.live import Trained

GRADIENT_STEPS = 2
Ranks = tuple[int, ...]
Sketches = dict[Ranks, dict[str, Sketch]]


class Facts(msgspec.Struct, frozen=True):
    """DTensors by the ranks that hold the same part; under () plain ones, of which nobody says.

    ``joint`` are ranks that share a backward pass by the script's own collectives, ``meshes`` those
    of meshes that DTensors are spread over. ``names`` has what the script calls a parameter.
    """

    copies: list[Copies]
    steps: int
    joint: list[Ranks]
    meshes: list[Ranks]
    names: dict[str, str]


class Observer:
    """Sketches parameters that may be copies before and after, and their first gradients."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._module: nn.Module | None = None
        self._joint: set[Ranks] = set()
        self._is_sharded = False
        self._before: Sketches = {}
        self._gradients: list[Sketches] = []
        self._steps = 0

    def on_sharded(self, *_told: Any) -> None:
        """Remember that plain parameters are those that FSDP was told to ignore."""
        self._is_sharded = True

    def on_joint(self, ranks: Ranks) -> None:
        """Remember who shares a backward pass."""
        self._joint.add(ranks)

    def on_built(self, live: Trained) -> None:
        """Sketch what it starts from, where a rank may hold a copy of another's."""
        self._ctx.require_watch()
        if live.ddp is not None:
            raise Skip("DDP keeps the parameters alike: gradients/replicas-differ looks at them")
        self._module = live.module
        self._before = self._sketch(lambda parameter: parameter)
        if not self._before:
            raise Skip("no parameter is held by several ranks that work on one model")
        self.on_gradients(0)  # the optimizer is about to make its first step

    def on_gradients(self, step: int) -> None:
        """Sketch what the optimizer is about to use."""
        if step < GRADIENT_STEPS and self._module is not None:
            self._gradients.append(self._sketch(lambda parameter: parameter.grad))

    def on_step(self, step: int) -> None:
        """Count the step."""
        self._steps = step + 1

    def facts(self) -> Facts:
        """Return the sketches; raises Skip where nothing was trained."""
        from ddpcheck.watch.meshes import names_of, ranks_of_meshes

        self._ctx.require_watch()
        if self._module is None:
            raise Skip("no optimizer made a step")
        after = self._sketch(lambda parameter: parameter)
        copies = [
            Copies(ranks, own, [e.get(ranks, {}) for e in self._gradients], after.get(ranks, {}))
            for ranks, own in self._before.items()
        ]
        meshes = [] if self._is_sharded else ranks_of_meshes(self._module)
        return Facts(copies, self._steps, sorted(self._joint), meshes, names_of(self._module))

    def _sketch(self, pick: Callable[[torch.Tensor], torch.Tensor | None]) -> Sketches:
        from ddpcheck.watch.meshes import ranks_of_meshes, sketched_by_holders

        if self._module is None:
            return {}
        plain = bool(self._joint or ranks_of_meshes(self._module)) and not self._is_sharded
        return sketched_by_holders(self._module, pick, with_plain=plain)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return an error for what DTensor declares to be alike, a warning for what was so at first."""
    if len({own.steps for own in facts.values()}) > 1:
        return []  # one that stopped in another step is elsewhere: gradients/step-raised
    declared, plain = drifts_of_declared(facts), drifts_of_plain(facts)
    told = [(declared, Severity.ERROR), (plain, Severity.WARNING)]
    return [_finding(facts, found, severity) for found, severity in told if found]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how much was compared."""
    count = sum(len(each.before) for each in next(iter(facts.values())).copies)
    return f"{count} parameters that may be copies of other ranks'"


def _finding(
    facts: Mapping[int, Facts], drifts: Mapping[Ranks, Drift], severity: Severity
) -> Finding:
    group, (difference, step) = next(iter(drifts.items()))
    name = facts[group[0]].names.get(difference.name, difference.name)
    declared = severity is Severity.ERROR
    what = "it differs" if step is None else f"its gradient of step {step} differs"
    more = f"; so it is in {len(drifts) - 1} more groups" if len(drifts) > 1 else ""
    return Finding(
        title=f"parameter {name} drifts apart on ranks that hold copies of it",
        message=f"{name} is not the same on ranks {spans(group)} after {facts[group[0]].steps} steps, though "
        f"{'its DTensor says so' if declared else 'it was at first'}: {what} by "
        f"{difference.relative:.1e} of its size, the first of {difference.differing}{more}",
        fix="sum its gradient over these ranks before the optimizer's step: SequenceParallel(), "
        "to_local(grad_placements=[Partial()]), or all_reduce",
        ranks=tuple(sorted({rank for each in drifts.values() for rank in each.difference.ranks})),
        severity=severity,
        confidence=Confidence.HIGH if declared else Confidence.MEDIUM,
        evidence={"parameter": name, "group": list(group), "step": step},
    )
