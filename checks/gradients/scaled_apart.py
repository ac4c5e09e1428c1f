"""Ranks scale the gradients of one sharded model by other factors.

Why it matters
    Of a sharded model each rank has a part of every gradient. Who clips by the norm of the parts
    that are here, as torch.nn.utils.clip_grad_norm_ does with FSDP1, scales each rank's part by
    another factor: the step goes into a direction that no gradient had, and no error says so.

What to do
    Clip by the norm of the whole: model.clip_grad_norm_() of FSDP1, torch.nn.utils.clip_grad_norm_
    on the DTensors of fully_shard as they are, or the root of an all_reduce of the squared norms.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Location, Severity
from ddpcheck.measures.peers import grouped
from ddpcheck.measures.words import spans

# Norms of bfloat16 gradients are that exact; clipping by a part's norm is off by tenths.
APART_RELATIVE = 0.02
# One step may be a rank's own: it skipped a batch, say.
LEAST_STEPS = 2


class Facts(msgspec.Struct, frozen=True):
    """By which factor each of the first steps' gradients were scaled after backward, 0 if by none.

    ``group`` are the ranks that the model is sharded among, ``location`` is the optimizer's step.
    """

    factors: tuple[float, ...]
    group: tuple[int, ...]
    location: Location | None = None


class Observer:
    """Compares norms after the backward pass with those that the optimizer gets."""

    def __init__(self, ctx: Context) -> None:
        from ddpcheck.watch.averaging import Averaging
        from ddpcheck.watch.scalings import Scalings

        self._ctx = ctx
        self.parts: tuple[Any, ...] = (Averaging(), Scalings()) if ctx.watches else ()

    def facts(self) -> Facts:
        """Return the factors; raises Skip where no sharded model was trained."""
        self._ctx.require_watch()
        averaging, scalings = self.parts
        factors = scalings.factors()
        if not factors or not averaging.ranks:
            raise Skip("no model was sharded over several ranks and trained")
        return Facts(factors, averaging.ranks, scalings.location)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for each group whose ranks scaled by other factors, in several steps."""
    found: list[Finding] = []
    for group, ranks in grouped({rank: own.group for rank, own in facts.items()}).items():
        steps = list(zip(*(facts[rank].factors for rank in ranks), strict=False))
        apart = [at for at, factors in enumerate(steps) if _are_apart(factors)]
        if len(ranks) == len(group) > 1 and len(apart) >= LEAST_STEPS:
            found.append(_finding(group, facts[group[0]].location, steps[apart[0]], len(apart)))
    return found


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many steps were compared."""
    count = min(len(own.factors) for own in facts.values())
    return f"gradients of {count} steps compared between backward and the step"


def _are_apart(factors: tuple[float, ...]) -> bool:
    return min(factors) > 0 and max(factors) > (1 + APART_RELATIVE) * min(factors)


def _finding(
    group: tuple[int, ...], location: Location | None, factors: tuple[float, ...], steps: int
) -> Finding:
    return Finding(
        title="ranks scale the gradients of one sharded model by other factors",
        message=f"between backward and the step each of ranks {spans(group)} multiplies all its gradients with "
        f"one number, from {min(factors):.3g} to {max(factors):.3g} in the first of {steps} such steps, as who clips "
        "by the norm of what is here does",
        fix="clip by the norm of the whole: model.clip_grad_norm_() of FSDP1, clip_grad_norm_ on the DTensors "
        "of fully_shard, or all_reduce the squared norm before its root",
        ranks=group,
        severity=Severity.WARNING,
        confidence=Confidence.HIGH,
        location=location,
        evidence={"factors": list(factors)},
    )
