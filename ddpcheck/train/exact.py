"""One process in float64, put at any weights: what a step that starts there shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ddpcheck.target.minigpt import MiniGPT
from ddpcheck.train.parallel import Place
from ddpcheck.train.strategies import single
from ddpcheck.train.trace import Step, taken
from ddpcheck.train.trainer import trainer_of


class Exact:
    """Takes any of a training's first steps from weights that it is given.

    batches: int64 [global batch, block + 1] each, one a step. A place's options do not matter.
    """

    def __init__(self, model: MiniGPT, place: Place, batches: Sequence[Tensor]) -> None:
        self._trainer = trainer_of(single.build(model.double(), place), place, len(batches))
        self._batches = batches
        self._latest: dict[int, Step] = {}

    def __call__(self, number: int, weights: Mapping[str, Tensor]) -> Step:
        """Return what step ``number`` (from 1) shows at these weights, by the parameter's name."""
        latest = self._latest.get(number)
        # Options often change no bit of what is computed.
        if latest is not None and _equal(latest.weights, weights):
            return latest
        model = self._trainer.parallel.model
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(weights[name])
        step = taken(self._trainer, number, self._batches[number - 1])
        self._trainer.parallel.optimizer.zero_grad()
        self._latest[number] = replace(step, weights=weights)
        return self._latest[number]


def _equal(some: Mapping[str, Tensor], others: Mapping[str, Tensor]) -> bool:
    return all(torch.equal(each, others[name]) for name, each in some.items())
