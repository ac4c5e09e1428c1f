"""A script averages its gradients by itself, and some of them with another divisor than the others.

Why it matters
    Where the sum over the ranks is divided by their number for all parameters but a few, those get
    steps as many times too long as there are ranks: with each host that is added the training
    changes, no replica differs from another, and nothing raises.

What to do
    Divide every gradient, or every bucket of them, in one place; or reduce with ReduceOp.AVG, or
    wrap the model in DistributedDataParallel, which does it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isclose
from statistics import median_low
from typing import TYPE_CHECKING

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.measures.peers import grouped
from ddpcheck.measures.sketch import Sketch, mean_projection
from ddpcheck.measures.unwrapped import Unwrapped
from ddpcheck.measures.words import counted, listed, spans

if TYPE_CHECKING:
    import torch

    from ddpcheck.watch.by_hand import ByHand
    from ddpcheck.watch.meetings import Called

# Beyond rounding in bfloat16; a forgotten division is a factor of 2 and more.
ALIKE_RELATIVE = 0.02
LAST_STEP = 2  # the model is known from step 0 on; one step would do, unless it was skipped


class Facts(msgspec.Struct, frozen=True):
    """Sketches of the gradients of a step by name: of this rank's own, and of what came of all."""

    unwrapped: Unwrapped
    own: dict[str, Sketch]
    averaged: dict[str, Sketch]


class Observer:
    """Sketches gradients as a backward pass leaves them, and as the optimizer gets them."""

    def __init__(self, ctx: Context) -> None:
        from ddpcheck.watch.by_hand import ByHand

        self._ctx = ctx
        self._by_hand: ByHand = ByHand()
        self.parts = (self._by_hand,)
        self._own: dict[str, Sketch] = {}
        self._averaged: dict[str, Sketch] = {}
        self._step, self._sums = 0, False

    def on_called(self, call: Called) -> None:
        """Sketch this rank's own gradients: a backward pass is over, and no sum has begun."""
        is_known = bool(self._by_hand.ranks) and 0 < self._step <= LAST_STEP
        # Not at the first sum: it may find its own gradient divided, and the others not yet.
        if call.name == "backward" and is_known and not (self._sums or self._averaged):
            self._own = self._by_hand.sketch_gradients()

    def on_reducing(self, _tensor: torch.Tensor, ranks: tuple[int, ...]) -> None:
        """Note that a sum has begun."""
        self._sums = self._sums or ranks == self._by_hand.ranks

    def on_gradients(self, _step: int) -> None:
        """Sketch what came of them."""
        if self._own and self._sums and not self._averaged:
            self._averaged = self._by_hand.sketch_gradients()

    def on_step(self, step: int) -> None:
        """Begin another step."""
        self._step, self._sums = step + 1, False
        self._own = self._own if self._averaged else {}

    def facts(self) -> Facts:
        """Return the sketches; raises Skip where the script averages no gradients by itself."""
        self._ctx.require_watch()
        if not self._averaged:
            raise Skip("the script was not seen to average gradients by itself")
        if self._by_hand.exchanges:
            raise Skip(
                "experts get samples of several ranks: what divides theirs is another number"
            )
        return Facts(self._by_hand.told(), self._own, self._averaged)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for the ranks that average together, of what is divided by another number."""
    found: list[Finding] = []
    for ranks, members in grouped(
        {rank: own.unwrapped.ranks for rank, own in facts.items()}
    ).items():
        factors = _factors([facts[rank] for rank in members])
        if len(members) == len(ranks) > 1 and factors:
            usual = median_low(factors.values())
            rest = [name for name, each in factors.items() if not _is_times(each, usual, 1)]
            # Others than by the number of ranks may be meant: rates of layers, clipping one by one.
            if rest and all(_is_times(factors[name], usual, len(ranks)) for name in rest):
                found.append(_finding(facts[members[0]], ranks, rest, factors[rest[0]] / usual))
    return found


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many gradients were compared."""
    return f"{len(next(iter(facts.values())).averaged)} gradients compared with the ranks' sum"


def _factors(told: Sequence[Facts]) -> dict[str, float]:
    """Return what the mean over the ranks was multiplied by, where it was, and not changed otherwise."""
    found: dict[str, float] = {}
    for name, averaged in told[0].averaged.items():
        if any(name not in own.own or own.averaged.get(name) != averaged for own in told):
            continue
        mean = mean_projection([own.own[name] for own in told])
        square = sum(each * each for each in mean)
        pairs = list(zip(averaged.projections, mean, strict=True))
        factor = sum(a * b for a, b in pairs) / square if square else 0.0
        rest = sum((a - factor * b) ** 2 for a, b in pairs)
        if factor > 0 and rest <= ALIKE_RELATIVE**2 * factor**2 * square:
            found[name] = factor
    return found


def _is_times(factor: float, usual: float, count: int) -> bool:
    """Return whether they were divided alike but for the number of ranks, once more or less."""
    ratio = factor / usual
    return any(isclose(ratio, each, rel_tol=ALIKE_RELATIVE) for each in (count, 1 / count))


def _finding(own: Facts, ranks: Sequence[int], odd: Sequence[str], ratio: float) -> Finding:
    names = [own.unwrapped.names.get(name, name) for name in odd]
    summed = own.unwrapped.summed
    return Finding(
        title=f"gradients of {counted(len(odd), 'parameter')} are divided by another number than others",
        message=f"the script averages the gradients of ranks {spans(ranks)} by itself: {listed(names)} "
        f"got {ratio:.3g} times as much of the mean over the ranks as the others",
        fix="divide every gradient by the number of ranks, once, or reduce with ReduceOp.AVG",
        ranks=tuple(ranks),
        severity=Severity.WARNING,
        confidence=Confidence.MEDIUM,
        location=summed.location if summed else None,
        evidence={"parameters": names[:8], "ratio": ratio},
    )
