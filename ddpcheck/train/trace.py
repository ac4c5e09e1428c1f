"""What a training shows, step by step: recorded to be compared with another one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from torch import Tensor

from ddpcheck.train.dtensor import gradient, weight
from ddpcheck.train.optimizer import learning_rate
from ddpcheck.train.trainer import Trainer


@dataclass(frozen=True)
class Step:
    """One step: mean loss in nats, and what the optimizer saw.

    rate: the learning rate. norm: of all gradients, before clipping. gradients: after it, by the
    parameter's name. weights: before the step, by that name. Tensors are on rank 0 alone.
    """

    rate: float
    loss: float
    norm: float
    gradients: Mapping[str, Tensor]
    weights: Mapping[str, Tensor]


@dataclass(frozen=True)
class Trace:
    """A training of some steps, and the weights after the last."""

    steps: tuple[Step, ...]
    after: Mapping[str, Tensor]

    @property
    def weights(self) -> list[Mapping[str, Tensor]]:
        """Return the weights before the first step, and after each."""
        return [*(step.weights for step in self.steps), self.after]


def record(trainer: Trainer, batches: Iterator[Tensor]) -> Trace:
    """Train all steps, and return what they showed; all ranks of the trainer must call this."""
    steps: list[Step] = []
    for number in range(1, trainer.steps + 1):
        steps.append(taken(trainer, number, next(batches)))
        trainer.update()
    return Trace(tuple(steps), trainer.parallel.collect(weight))


def taken(trainer: Trainer, number: int, batch: Tensor) -> Step:
    """Return what step ``number`` (from 1) shows, up to where the optimizer would act."""
    collect = trainer.parallel.collect
    weights = collect(weight)
    part = trainer.gradients(number, batch)
    loss = trainer.everyone.sum(part.loss).item()
    rate = learning_rate(number, trainer.steps)
    return Step(rate, loss, part.norm.item(), collect(gradient), weights)
