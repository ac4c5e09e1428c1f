"""Watch with which running statistics the BatchNorm layers of a model evaluate."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from ddpcheck.finding import Location
from ddpcheck.measures.running_statistics import Evaluation, Statistics
from ddpcheck.watch.batchnorm import Look
from ddpcheck.watch.callsite import users_line

KEPT_CHANNELS = 64
KEPT_EVALUATIONS = 4

Snapshot = dict[str, tuple[torch.Tensor, torch.Tensor]]


class RunningStatistics:
    """Keeps the statistics at the first forward pass of each evaluation, where they are."""

    def __init__(self, model: nn.Module) -> None:
        self._layers = {
            name: module
            for name, module in model.named_modules()
            if isinstance(module, _BatchNorm) and module.running_mean is not None
        }
        self._is_evaluating = False
        self._kept: list[tuple[Snapshot, Location | None]] = []
        if self._layers:
            self._hook = model.register_forward_pre_hook(Look(self._look))

    def close(self) -> tuple[Evaluation, ...]:
        """Take the hook off and return the evaluations in order."""
        if self._layers:
            self._hook.remove()
        return tuple(_evaluation(*each) for each in self._kept)

    def _look(self, model: nn.Module, _given: Sequence[object]) -> None:
        begins = not model.training and not self._is_evaluating
        self._is_evaluating = not model.training
        if begins and len(self._kept) < KEPT_EVALUATIONS:
            self._kept.append((self._snapshot(), users_line()))

    def _snapshot(self) -> Snapshot:
        return {
            name: (_copied(layer.running_mean), _copied(layer.running_var))
            for name, layer in self._layers.items()
        }


def _copied(values: torch.Tensor | None) -> torch.Tensor:
    return (
        torch.zeros(0, device="cpu")
        if values is None
        else values.detach()[:KEPT_CHANNELS].float().clone()
    )


def _evaluation(snapshot: Snapshot, location: Location | None) -> Evaluation:
    layers = (
        Statistics(name, tuple(means.tolist()), tuple(variances.tolist()))
        for name, (means, variances) in snapshot.items()
    )
    return Evaluation(tuple(layers), location)
