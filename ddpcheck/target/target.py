"""What a target is: the parts of a training that are rehearsed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

Loss = Callable[[nn.Module, Any], torch.Tensor]


@dataclass
class Target:
    """A training's parts, as a factory returns them.

    model: the bare module, on the CPU or already on the rank's device.
    loader: an iterable of batches; it is iterated anew for every pass. A batch is a
        tensor, or a tuple, list or dict of tensors whose first dimension is the batch.
    loss: ``loss(model, batch) -> scalar tensor``, the mean over the batch; it is called
        with the wrapped model, or with the bare one.
    optimizer: built on the model's parameters; SGD with a rate of 0.01 when None.
    wrap: ``wrap(model) -> model``, makes the replicas train as one;
        DistributedDataParallel when None.
    """

    model: nn.Module
    loader: Iterable[Any]
    loss: Loss
    optimizer: torch.optim.Optimizer | None = None
    wrap: Callable[[nn.Module], nn.Module] | None = None
