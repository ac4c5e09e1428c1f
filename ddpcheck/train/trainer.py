"""One training step, right for every strategy, on any number of ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ddpcheck.target.minigpt import count_predictions
from ddpcheck.train.optimizer import MAX_GRADIENT_NORM, learning_rate
from ddpcheck.train.parallel import Parallel, Place, Share
from ddpcheck.train.precision import gradient_scaler


class StepPart(NamedTuple):
    """One rank's part of a step.

    loss: its part of the global mean loss before the step; the parts of all ranks add up to it.
    norm: that of all gradients before clipping, alike on all ranks. predictions: how many bytes of
    its share of the batch are predicted.
    """

    loss: Tensor
    norm: Tensor
    predictions: int


@dataclass(frozen=True)
class Trainer:
    """What a step needs; ``everyone`` are the ranks which step together."""

    parallel: Parallel
    scaler: torch.amp.GradScaler
    device: torch.device
    everyone: Share
    steps: int

    def step(self, number: int, batch: Tensor) -> StepPart:
        """Train on this rank's share of the batch, as step ``number`` (from 1).

        ``batch`` is int64 [share, block + 1], on the CPU.
        """
        part = self.gradients(number, batch)
        self.update()
        return part

    def gradients(self, number: int, batch: Tensor) -> StepPart:
        """Compute the gradients of step ``number``, as the optimizer is to see them."""
        for group in self.parallel.optimizer.param_groups:
            group["lr"] = learning_rate(number, self.steps)
        on_device = batch.to(self.device, non_blocking=True)
        # Counted here: on a GPU that would be three kernels, and steps wait for their launches.
        predictions = count_predictions(batch)
        total = self.parallel.data.sum(torch.full((), predictions, device=self.device))
        loss = self.parallel.backward(on_device, total, self.scaler.scale)
        # Before clipping: the bound is for gradients, not for scaled ones.
        self.scaler.unscale_(self.parallel.optimizer)
        return StepPart(loss, self.parallel.clip(MAX_GRADIENT_NORM), predictions)

    def update(self) -> None:
        """Let the optimizer use the gradients, and forget them."""
        self.scaler.step(self.parallel.optimizer)
        self.scaler.update()
        self.parallel.optimizer.zero_grad()


def trainer_of(parallel: Parallel, place: Place, steps: int) -> Trainer:
    """Return what trains ``parallel``, which was built at ``place``, for ``steps`` steps."""
    return Trainer(parallel, gradient_scaler(place), place.device, place.everyone, steps)
