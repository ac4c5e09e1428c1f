"""Gradients lie in memory in another order than DDP's buckets have them.

Why it matters
    DDP lays a bucket out as its parameters are. A gradient of other strides, often of a 1x1
    convolution in channels_last, or of what was transposed, is copied element by element instead of
    in one piece: "Grad strides do not match bucket view strides". It costs a little, and is no
    error.

What to do
    Call contiguous() after permute() or transpose() on the way to that parameter, or leave
    channels_last out for its layer. gradient_as_bucket_view=True does not help.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.measures.words import listed

if TYPE_CHECKING:
    from ddpcheck.target.live import Trained

# DDP makes its buckets anew in the first step.
LOOKED_AT_STEP = 1
SHOWN_COUNT = 4


class Strided(msgspec.Struct, frozen=True):
    """A parameter, its strides and those of its gradient, in elements."""

    name: str
    parameter: tuple[int, ...]
    gradient: tuple[int, ...]


class Facts(msgspec.Struct, frozen=True):
    """How many parameters were looked at, and those whose gradients have other strides."""

    parameters: int
    other: tuple[Strided, ...]


class Observer:
    """Compares strides once."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._live: Trained | None = None
        self._facts: Facts | None = None

    def on_built(self, live: Trained) -> None:
        """Remember the model, if DDP has it."""
        self._live = live if live.ddp is not None else None

    def on_gradients(self, step: int) -> None:
        """Compare, in the second step."""
        if self._live is None or step != LOOKED_AT_STEP:
            return
        named = [(n, p) for n, p in self._live.module.named_parameters() if p.grad is not None]
        self._facts = Facts(
            len(named),
            tuple(
                Strided(name, tuple(p.stride()), tuple(p.grad.stride()))
                for name, p in named
                if p.grad is not None and not p.grad.is_sparse and p.stride() != p.grad.stride()
            ),
        )

    def facts(self) -> Facts:
        """Return what was seen; raises Skip where no second step was."""
        self._ctx.require_watch()
        if self._facts is None:
            raise Skip("no second step of a model in DistributedDataParallel was seen")
        return self._facts


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return an info where gradients have other strides than their parameters."""
    bad = {rank: own.other for rank, own in sorted(facts.items()) if own.other}
    if not bad:
        return []
    first = bad[min(bad)]
    told = [f"{s.name} {s.gradient} instead of {s.parameter}" for s in first[:SHOWN_COUNT]]
    more = f" and {len(first) - len(told)} more" if len(first) > len(told) else ""
    return [
        Finding(
            title=f"{len(first)} gradients do not lie as DDP's buckets have them",
            message=f"strides of {listed(told)}{more}: each is copied element by element",
            fix="call contiguous() after permute() or transpose() on the way to them, or leave "
            "channels_last out for their layers",
            ranks=tuple(bad),
            severity=Severity.INFO,
            confidence=Confidence.HIGH,
        )
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many were compared."""
    return f"{max(own.parameters for own in facts.values())} gradients compared"
