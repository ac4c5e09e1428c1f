"""How fast training goes: a stopwatch that knows devices, and one rank alone."""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from time import perf_counter

import msgspec
import torch
from torch import Tensor

from ddpcheck.target.minigpt import MiniGPT
from ddpcheck.train.parallel import ALONE, Place
from ddpcheck.train.strategies import single
from ddpcheck.train.trainer import trainer_of

# The first steps are slower: DDP orders its buckets anew, libraries choose their kernels.
UNTIMED_STEPS = 5
TIMED_STEPS = 10


class Stopwatch:
    """Adds up seconds while it runs; reading waits until the device has done its work."""

    def __init__(
        self,
        device: torch.device,
        clock: Callable[[], float] = perf_counter,
        total_s: float = 0.0,
    ) -> None:
        self._device = device
        self._clock = clock
        self._started_s: float | None = None
        self.total_s = total_s

    def start(self) -> None:
        """Run on from here."""
        self._started_s = self._now_s()

    def stop(self) -> None:
        """Add the time since the start."""
        if self._started_s is not None:
            self.total_s += self._now_s() - self._started_s
            self._started_s = None

    @contextmanager
    def paused(self) -> Generator[None]:
        """Stand still meanwhile, and run on if it ran."""
        ran = self._started_s is not None
        self.stop()
        yield
        if ran:
            self.start()

    def _now_s(self) -> float:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        return self._clock()


def single_rank_tokens_per_s(
    model: MiniGPT, batches: Iterator[tuple[int, Tensor]], place: Place
) -> float:
    """Return how many tokens a second one rank alone trains on, with no other rank at work.

    Takes the steps of the parallel run at ``place``, with the batch of one rank, on a copy of
    ``model``.
    """
    steps = UNTIMED_STEPS + TIMED_STEPS
    # What the strategy was told is not for one process.
    recipe = msgspec.structs.replace(place.recipe, options={})
    alone = replace(place, recipe=recipe, everyone=ALONE)
    trainer = trainer_of(single.build(copy.deepcopy(model), alone), alone, steps)
    watch = Stopwatch(place.device)
    tokens = 0
    for step in range(1, steps + 1):
        if step == UNTIMED_STEPS + 1:
            watch.start()
        _, batch = next(batches)
        predictions = trainer.step(step, batch).predictions
        tokens += predictions if step > UNTIMED_STEPS else 0
    watch.stop()
    return tokens / watch.total_s
