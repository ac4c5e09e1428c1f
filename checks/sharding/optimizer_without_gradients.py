"""The optimizer's parameters get no gradients, so that its steps move nothing.

Why it matters
    fully_shard and FSDP put new parameters in the place of a model's own. An optimizer that was
    made before has the old ones: backward passes fill the gradients of the new ones, step() moves
    nothing, and no error says so. The loss stays where it was. An optimizer made between the
    blocks' fully_shard and the model's leaves embedding and head as they were initialized.

What to do
    Make the optimizer after the model has been sharded, from model.parameters(). Where gradients
    are accumulated, turn FSDP's reduction on again before the last backward pass of a step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Location, Severity
from ddpcheck.measures.words import listed, spans

if TYPE_CHECKING:
    import torch

    from ddpcheck.target.live import Trained

# A first step may only make the optimizer's state.
LEAST_STEPS = 2
FIX = "make the optimizer from model.parameters() after fully_shard or FSDP"
OTHERS = "they are not those of the model that is trained"
NOT_REDUCED = (
    "they are sharded, and no gradient was reduced to the shards, as after set_requires_gradient_sync("
    "False), or where the loss does not lead back to them: cut by an all_gather or detach(), say"
)


class Facts(msgspec.Struct, frozen=True):
    """The optimizer's parameters, its steps after a backward pass, and how many had a gradient.

    So many of the parameters are ``sharded``: the optimizer was made from the sharded model. Those
    that were ``left`` behind gave way to others by the call at ``location``, in all of the steps. ``made``: its line.
    """

    parameters: int
    steps: int
    steps_with_gradients: int
    sharded: int = 0
    left: tuple[str, ...] = ()
    location: Location | None = None
    made: Location | None = None


class Observer:
    """Looks, before each step, for a gradient on one of the optimizer's parameters."""

    def __init__(self, ctx: Context) -> None:
        from ddpcheck.watch.left_behind import LeftBehind

        del ctx
        self._behind = LeftBehind()
        self.parts = (self._behind,)
        self._live: Trained | None = None
        self._has_loss = False
        self._steps = 0
        self._with_gradients = 0

    def on_built(self, live: Trained) -> None:
        """Remember the training, whose optimizer may come later."""
        self._live = live

    def on_loss(self, _step: int, _loss: object) -> None:
        """Note that a backward pass has begun."""
        self._has_loss = True

    def on_gradients(self, _step: int) -> None:
        """Count the step, and whether there is anything to step by."""
        if not self._has_loss:
            return
        self._has_loss = False
        self._steps += 1
        self._with_gradients += any(each.grad is not None for each in self._parameters())
        if self._live is not None and self._live.optimizer is not None:
            self._behind.look(self._live.optimizer)

    def facts(self) -> Facts:
        """Return the counts; raises Skip where nothing was trained."""
        from ddpcheck.watch.optimizers import MADE_AT

        if self._live is None or self._live.optimizer is None or not self._steps:
            raise Skip("no step of an optimizer followed a backward pass")
        own, left = self._parameters(), tuple(self._behind.left)
        sharded = sum(hasattr(each, "placements") for each in own)
        told = (len(own), self._steps, self._with_gradients, sharded, left)
        replaced_at = next(iter(self._behind.left.values()), None)
        return Facts(*told, replaced_at, MADE_AT.get(self._live.optimizer))

    def _parameters(self) -> list[torch.Tensor]:
        optimizer = self._live.optimizer if self._live is not None else None
        groups = optimizer.param_groups if optimizer is not None else []
        return [each for group in groups for each in group["params"]]


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for the ranks whose optimizer never had a gradient, or not for a part."""
    stepped = {r: own for r, own in sorted(facts.items()) if own.steps >= LEAST_STEPS}
    idle = [r for r, own in stepped.items() if own.parameters and not own.steps_with_gradients]
    partly = {rank: own for rank, own in stepped.items() if own.left}
    if idle:
        return [_idle(idle, facts[idle[0]])]
    return [_partly(partly)] if partly else []


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many steps had gradients."""
    own = next(iter(facts.values()))
    return f"{own.steps_with_gradients} of {own.steps} steps had gradients"


def _idle(ranks: Sequence[int], own: Facts) -> Finding:
    return Finding(
        title="the optimizer's parameters get no gradients",
        message=f"none of the optimizer's {own.parameters} parameters had a gradient in "
        f"{own.steps} steps on rank {spans(ranks)}, though losses were backpropagated: "
        + (NOT_REDUCED if own.sharded else OTHERS),
        fix="call set_requires_gradient_sync(True) before the last backward pass of each step"
        if own.sharded
        else FIX,
        ranks=tuple(ranks),
        severity=Severity.ERROR,
        confidence=Confidence.HIGH,
        location=own.made,
    )


def _partly(ranks: Mapping[int, Facts]) -> Finding:
    own = ranks[min(ranks)]
    return Finding(
        title=f"{len(own.left)} of the optimizer's parameters are not the model's any more",
        message=f"{listed(own.left)}: fully_shard put others in their place after the optimizer was "
        f"made, which got gradients in {own.steps} steps and are in no optimizer: these "
        f"{len(own.left)} of {own.parameters} parameters never move",
        fix=FIX,
        ranks=tuple(ranks),
        severity=Severity.ERROR,
        confidence=Confidence.HIGH,
        location=own.location,
    )
