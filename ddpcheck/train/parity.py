"""Whether a parallel training computes what one process computes, and within which bounds.

Two orders of the same sums differ by rounding. No formula says by how much, but an experiment does:
how far one process in the precision asked for is from one in float64 is what rounding does to this
very training, tensor by tensor, step by step. A strategy may be as far from it, a few times over::

    |x_S - x_64|  <=  FACTOR * |x_1 - x_64|  +  (u + sqrt(n) * u32) * |x_64|

x is the loss, the norm of all gradients, or a parameter's gradient after clipping; |x| is the
2-norm. S is the strategy, 1 the one process, 64 one in float64. u is the unit roundoff of the
precision (of what gradients are sent in, where that is coarser), u32 that of fp32, in which all sums
are kept; n is the number of predictions that are summed: n roundings add up to sqrt(n) * u with high
probability (Higham and Mary, A New Approach to Probabilistic Rounding Error Analysis, SIAM J. Sci.
Comput. 41, 2019). That last term is the least which a bound can be: a number may be right by chance.

The process in float64 starts each step at the weights of what it is compared with. Two right
trainings part company: AdamW divides a gradient by its own size, so where a gradient is but
rounding, its sign moves a weight by a whole learning rate, this way or that. If it is the weight of
a frequent byte, all later gradients differ by percents. Step by step they do not.

The weights after each step are held to what AdamW, by the book, in float64, makes of the seeded ones
and of the gradients that the strategy showed. Weights and optimizer are in fp32 in every precision, so
that bound is as tight in all: some roundings a step.

So a training that passes began with the seeded weights, had the right gradients at the weights where
it was, and went where these lead.

The one process must be right itself, or it would excuse anything (kind ``reference``)::

    |x_1 - x_64|  <=  FACTOR * sqrt(n) * u * |x_64|    for the loss and the norm
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec
import torch
from torch import Tensor

from ddpcheck.train.optimizer import adamw_by_the_book
from ddpcheck.train.trace import Step, Trace

# The errors of a strategy may be larger than those of one process: it sums in more pieces, and sends
# what it has rounded; and one draw of such errors tells their size not to a hair.
FACTOR = 4.0
# Half of the distance from 1 to the next number: fp32 has 24 bits, bf16 8, fp16 11.
UNIT_ROUNDOFF = {"fp32": 2.0**-24, "bf16": 2.0**-8, "fp16": 2.0**-11}
# Operations of AdamW's step, each of which rounds once.
ADAMW_ROUNDINGS = 16


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """How far a strategy is from one process, relative to the value, and how far it may be.

    kind: reference, loss, norm, gradient or weights. step: from 1. name: of a
    parameter, or ''. ratio: difference / bound, inf where it is no number.
    """

    kind: str
    step: int
    name: str
    relative: float
    bound: float
    ratio: float

    @property
    def breaks(self) -> bool:
        """Return whether it is too far."""
        return self.ratio > 1


class Parity(msgspec.Struct, frozen=True, kw_only=True):
    """The comparison of a strategy with one process.

    worst: of each kind the difference that comes nearest to its bound. broken: the first one
    beyond it, in the order of the training; None where all hold. suspect: of all gradients that
    are beyond it in that step, the one that is farthest: where a parameter is wrong, so is the
    norm, and through clipping every gradient.
    """

    worst: Mapping[str, Difference]
    broken: Difference | None
    suspect: Difference | None = None


@dataclass(frozen=True)
class Reference:
    """What one process shows in the precision asked for, and what is exact.

    exact: (number of a step, weights before it) -> that step in float64. predictions: how many
    are summed in a step.
    """

    one: Trace
    exact: Callable[[int, Mapping[str, Tensor]], Step]
    precision: str
    predictions: int

    def compare(self, strategy: Trace) -> Parity:
        """Return how far the trace of a strategy is from that of the one process."""
        found = [*self._of_itself(), *self._of_strategy(strategy)]
        worst: dict[str, Difference] = {}
        for each in found:
            if each.kind not in worst or each.ratio > worst[each.kind].ratio:
                worst[each.kind] = each
        broken = next((each for each in found if each.breaks), None)
        return Parity(worst=worst, broken=broken, suspect=_suspect(found, broken))

    @cached_property
    def _exact(self) -> list[Step]:
        """Return what each step of the one process should have been."""
        return [self.exact(number, step.weights) for number, step in enumerate(self.one.steps, 1)]

    def _of_itself(self) -> Iterator[Difference]:
        roundings = math.sqrt(self.predictions) * UNIT_ROUNDOFF[self.precision]
        for number, (one, exact) in enumerate(zip(self.one.steps, self._exact, strict=True), 1):
            for name in ("loss", "norm"):
                seen, right = (_scalar(getattr(step, name)) for step in (one, exact))
                bound = FACTOR * roundings * float(right.abs())
                yield _difference((seen, right), bound, kind="reference", step=number, name=name)

    def _of_strategy(self, strategy: Trace) -> Iterator[Difference]:
        noise = {"loss": 0.0, "norm": 0.0}
        moves = _moves(strategy, self.one.steps[0].weights)
        steps = zip(strategy.steps, self.one.steps, self._exact, strict=True)
        for number, (seen, one, one_exact) in enumerate(steps, 1):
            # All begin at the seeded weights: one that does not is found out in its first step.
            exact = one_exact if number == 1 else self.exact(number, seen.weights)
            for kind, before in noise.items():
                value, right = (_scalar(getattr(step, kind)) for step in (seen, exact))
                # A single number may be right by chance: what earlier steps were off counts, too.
                noise[kind] = max(before, abs(getattr(one, kind) - getattr(one_exact, kind)))
                bound = self._bound(noise[kind], right)
                yield _difference((value, right), bound, kind=kind, step=number)
            for name, right in exact.gradients.items():
                bound = self._bound(_apart(one.gradients[name], one_exact.gradients[name]), right)
                pair = seen.gradients[name], right
                yield _difference(pair, bound, kind="gradient", step=number, name=name)
            yield from next(moves)

    def _bound(self, noise: float, exact: Tensor) -> float:
        sums = math.sqrt(self.predictions) * UNIT_ROUNDOFF["fp32"]
        return FACTOR * noise + (UNIT_ROUNDOFF[self.precision] + sums) * float(exact.norm())


def _moves(strategy: Trace, start: Mapping[str, Tensor]) -> Iterator[list[Difference]]:
    """Yield, step by step, how far each weight has moved, and how far it should have."""
    rates = [step.rate for step in strategy.steps]
    books = {
        name: adamw_by_the_book(first, [step.gradients[name] for step in strategy.steps], rates)
        for name, first in start.items()
    }
    for number, weights in enumerate(strategy.weights[1:], 1):
        yield [
            _difference(
                (weights[name].double() - first.double(), next(books[name]) - first.double()),
                _update_rounding(first.double(), rates[:number]),
                kind="weights",
                step=number,
                name=name,
            )
            for name, first in start.items()
        ]


def _suspect(found: Sequence[Difference], broken: Difference | None) -> Difference | None:
    if broken is None:
        return None
    beyond = [each for each in found if each.breaks and each.kind == "gradient"]
    same = [each for each in beyond if each.step == broken.step]
    return max(same, key=lambda each: each.ratio, default=None)


def coarser(one: str, other: str) -> str:
    """Return which of two formats rounds more; '' is none."""
    return max(one, other, key=lambda name: UNIT_ROUNDOFF.get(name, 0.0))


def _update_rounding(weight: Tensor, rates: Sequence[float]) -> float:
    """Return what fp32 may do to a weight in steps: a rounding of it in each, and AdamW's."""
    moved = sum(rates) * math.sqrt(weight.numel())
    once = len(rates) * float(weight.norm()) + ADAMW_ROUNDINGS * moved
    return 2 * UNIT_ROUNDOFF["fp32"] * once


def _difference(
    values: tuple[Tensor, Tensor], bound: float, *, kind: str, step: int, name: str = ""
) -> Difference:
    """Return how far a value is from the right one, which is the second, relative to that."""
    value, right = values
    apart = _apart(value, right)
    size = float(right.norm()) or 1.0
    # A comparison with what is no number must not pass.
    ratio = apart / bound if math.isfinite(apart) and bound else (math.inf if apart else 0.0)
    return Difference(
        kind=kind, step=step, name=name, relative=apart / size, bound=bound / size, ratio=ratio
    )


def _apart(one: Tensor, other: Tensor) -> float:
    return float((one.double() - other.double()).norm())


def _scalar(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)
