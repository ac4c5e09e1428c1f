"""The global batch is another one than in the run before, and the learning rate is the same.

Why it matters
    batch_size is that of one rank: with eight ranks instead of one a step is over eight times as
    many samples, and an epoch has an eighth of the steps. A learning rate and a warm-up that were
    right for the smaller batch give a worse model, and nothing looks wrong.

What to do
    Divide batch_size by the number of ranks to keep the global batch, or scale the learning rate
    with it (linearly for SGD: Goyal et al. 2017, with a warm-up; by the root for Adam) and plan the
    warm-up in samples. Where the new batch is meant to be so, this is no fault.
"""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from statistics import median_low
from typing import TYPE_CHECKING, Any

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Severity

if TYPE_CHECKING:
    from ddpcheck.target.live import Trained

ID = "gradients/global-batch-changed"
# A last rank more or less, or a batch that was rounded, changes nothing that shows.
LEAST_RATIO = 1.5
KEPT_COUNT = 64


class Facts(msgspec.Struct, frozen=True):
    """A rank's samples for each step of the optimizer, and the rates that it was made with.

    ``before`` has the ranks, samples and rates of the run before, on rank 0 where it was given.
    """

    world_size: int
    samples: int
    rates: tuple[float, ...]
    before: tuple[int, int, tuple[float, ...]] | None = None


class Observer:
    """Counts the samples that go into the model."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._live: Trained | None = None
        self._now = 0
        self._samples: list[int] = []
        self._rates: tuple[float, ...] = ()

    def on_built(self, live: Trained) -> None:
        """Remember the training, whose optimizer may come later."""
        self._live = live

    def on_inputs(self, _step: int, inputs: Any) -> None:
        """Count the samples of a forward pass."""
        from torch import Tensor
        from torch.utils._pytree import tree_leaves

        first = next((each for each in tree_leaves(inputs) if isinstance(each, Tensor)), None)
        self._now += int(first.shape[0]) if first is not None and first.dim() else 0

    def on_step(self, _step: int) -> None:
        """Keep the sum of this step, and the first rates."""
        if len(self._samples) < KEPT_COUNT:
            self._samples.append(self._now)
        self._now = 0
        optimizer = self._live.optimizer if self._live is not None else None
        if not self._rates and optimizer is not None:
            rates = (group.get("initial_lr", group.get("lr")) for group in optimizer.param_groups)
            self._rates = tuple(float(each) for each in rates if isinstance(each, Real))

    def facts(self) -> Facts:
        """Return the counts; raises Skip where nothing is known to compare."""
        self._ctx.require_watch()
        if not any(self._samples):
            raise Skip("no model was trained through DistributedDataParallel")
        told = (self._ctx.world_size, median_low(self._samples), self._rates)
        return Facts(*told, _before(self._ctx))


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return an info where the global batch changed much, and no rate did."""
    now = facts[min(facts)]
    if now.before is None or now.before[2] != now.rates:
        return []
    ranks, samples, _ = now.before
    old, new = ranks * samples, sum(own.samples for own in facts.values())
    if not min(old, new) or max(old, new) < LEAST_RATIO * min(old, new):
        return []
    return [
        Finding(
            title=f"the global batch is {new} instead of {old}, at the same learning rate",
            message=f"{len(facts)} ranks with {now.samples} samples a step each; before {ranks} with "
            f"{samples}; the learning rate is {_shown(now.rates)} as before",
            fix="divide batch_size by the number of ranks, or scale learning rate and warm-up to it",
            ranks=tuple(sorted(facts)),
            severity=Severity.INFO,
            confidence=Confidence.HIGH,
        )
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return the global batch."""
    now = facts[min(facts)]
    total = sum(own.samples for own in facts.values())
    return f"{total} samples a step, learning rate {_shown(now.rates)}"


def _before(ctx: Context) -> tuple[int, int, tuple[float, ...]] | None:
    told = ctx.baseline.get(ID, {})
    own = [msgspec.convert(fact, Facts) for _, fact in sorted(told.items())]
    return (own[0].world_size, own[0].samples, own[0].rates) if own else None


def _shown(rates: tuple[float, ...]) -> str:
    return " and ".join(f"{each:g}" for each in dict.fromkeys(rates)) or "of a kind not known"
