"""The backward pass is in no_sync, its forward pass is not: gradients are reduced all the same.

Why it matters
    DDP decides in the forward pass whether the backward pass after it reduces gradients. With
    no_sync around backward alone, every micro-step of an accumulation pays for an all-reduce that
    it was meant to save. What is learned is right.

What to do
    Enter no_sync before the forward pass: with model.no_sync(): loss = model(batch)...;
    loss.backward(). Leave it before the forward pass of the last micro-step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Location, Severity
from ddpcheck.measures.words import size, spans

if TYPE_CHECKING:
    from ddpcheck.target.live import Trained


class Facts(msgspec.Struct, frozen=True):
    """A rank's optimizer steps and backward passes, and how many of them no_sync did not spare.

    ``location`` is the forward pass of the first such; a reduction is of ``gradient_bytes``.
    """

    steps: int
    backward: int
    redundant: int
    location: Location | None = None
    gradient_bytes: int = 0
    group: tuple[int, ...] = ()


class Observer:
    """Compares what DDP is told at a forward pass with what it is told at its backward pass."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._live: Trained | None = None
        self._group: tuple[int, ...] = ()
        self._bytes = 0
        self._forward: list[Location | None] = []
        self._steps = 0
        self._backward = 0
        self._redundant = 0
        self._location: Location | None = None

    def on_built(self, live: Trained) -> None:
        """Remember who reduces how much."""
        from ddpcheck.watch.replicas import group_of

        self._live = live
        self._group = group_of(live.ddp) if live.ddp is not None else ()
        trained = (each for each in live.module.parameters() if each.requires_grad)
        self._bytes = sum(each.numel() * each.element_size() for each in trained)

    def on_inputs(self, _step: int, _inputs: object) -> None:
        """Remember a forward pass after which gradients are reduced."""
        from ddpcheck.watch.callsite import users_line

        if self._syncs():
            self._forward = [users_line()]

    def on_loss(self, _step: int, _loss: object) -> None:
        """Compare the backward pass with it."""
        if not self._forward:
            return
        self._backward += 1
        if not self._syncs():
            self._location = self._forward[0] if not self._redundant else self._location
            self._redundant += 1
        self._forward = []

    def on_step(self, step: int) -> None:
        """Count the step."""
        self._steps = step + 1

    def facts(self) -> Facts:
        """Return the counts; raises Skip where no script trains through DDP."""
        self._ctx.require_watch()
        if not self._group:
            raise Skip("no model was trained through DistributedDataParallel")
        seen = (self._steps, self._backward, self._redundant)
        return Facts(*seen, self._location, self._bytes, self._group)

    def _syncs(self) -> bool:
        ddp = self._live.ddp if self._live is not None else None
        return ddp is not None and bool(ddp.require_backward_grad_sync)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for the ranks that reduced gradients within no_sync."""
    bad = {rank: own for rank, own in facts.items() if own.redundant and len(own.group) > 1}
    if not bad:
        return []
    own = bad[min(bad)]
    each_step = own.redundant / max(own.steps, 1)
    return [
        Finding(
            title="a forward pass outside of no_sync has its backward pass inside",
            message=f"{own.redundant} backward passes in {own.steps} steps were in no_sync and their "
            f"forward passes were not, on rank {spans(bad)}: DDP reduced the gradients all the same, "
            f"{each_step:.3g} redundant all-reduces of {size(own.gradient_bytes)} a step",
            fix="enter no_sync before the forward pass of these micro-steps",
            ranks=tuple(sorted(bad)),
            severity=Severity.WARNING,
            confidence=Confidence.HIGH,
            location=own.location,
            evidence={"redundant_per_step": each_step, "gradient_bytes": own.gradient_bytes},
        )
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many backward passes reduced gradients."""
    own = facts[min(facts)]
    return f"{own.backward} backward passes reduced gradients in {own.steps} steps"
