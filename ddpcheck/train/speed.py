"""How fast training goes: a stopwatch that knows devices, and one rank alone."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from time import perf_counter

import torch
from torch import Tensor, nn

from ddpcheck.target.minigpt import count_predictions
from ddpcheck.train.recipe import Recipe
from ddpcheck.train.trainer import trainer_of

# The first steps are slower: DDP orders its buckets anew, libraries choose their kernels.
UNTIMED_STEPS = 5
TIMED_STEPS = 10


class Stopwatch:
    """Adds up seconds while it runs; reading waits until the device has done its work."""

    def __init__(self, device: torch.device, clock: Callable[[], float] = perf_counter) -> None:
        self._device = device
        self._clock = clock
        self._started_s = 0.0
        self.total_s = 0.0

    def start(self) -> None:
        """Run on from here."""
        self._started_s = self._now_s()

    def stop(self) -> None:
        """Add the time since the start."""
        self.total_s += self._now_s() - self._started_s

    def _now_s(self) -> float:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        return self._clock()


def single_rank_tokens_per_s(
    model: nn.Module, batches: Iterator[tuple[int, Tensor]], recipe: Recipe, device: torch.device
) -> float:
    """Return how many tokens a second one rank alone trains on, with no other rank at work.

    Takes the steps of the parallel run, with the batch of one rank, on a copy of ``model``
    (bare, on ``device``).
    """
    steps = UNTIMED_STEPS + TIMED_STEPS
    trainer = trainer_of(copy.deepcopy(model), recipe, device, steps, world_size=1)
    watch = Stopwatch(device)
    tokens = 0
    for step in range(1, steps + 1):
        if step == UNTIMED_STEPS + 1:
            watch.start()
        _, batch = next(batches)
        trainer.step(step, batch)
        tokens += count_predictions(batch) if step > UNTIMED_STEPS else 0
    watch.stop()
    return tokens / watch.total_s
