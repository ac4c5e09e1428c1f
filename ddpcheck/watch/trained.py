"""What is known of a model that a script trains."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer


@dataclass
class Watched:
    """A model that is trained, as far as it is known; see ``Trained``."""

    module: nn.Module
    model: nn.Module
    loader: Any
    device: str
    optimizer: Optimizer | None = None
    beside: Sequence[DistributedDataParallel] = ()

    @property
    def ddp(self) -> DistributedDataParallel | None:
        """Return the model as DistributedDataParallel, or None when it is wrapped otherwise."""
        return self.model if isinstance(self.model, DistributedDataParallel) else None


class ParametersOf(nn.Module):
    """The parameters of an optimizer, by group and place: of the model itself nothing is known.

    They need not be a module's: a script may train tensors that it has made itself.
    """

    def __init__(self, optimizer: Optimizer) -> None:
        super().__init__()
        self._named = {
            f"group {number} parameter {place}": parameter
            for number, group in enumerate(optimizer.param_groups)
            for place, parameter in enumerate(group["params"])
        }

    def named_parameters(self, *_more: Any, **_named: Any) -> Iterator[tuple[str, Any]]:
        """Yield each with its name."""
        yield from self._named.items()


def shares(optimizer: Optimizer, module: nn.Module) -> bool:
    """Return whether the optimizer has one of the module's parameters."""
    own = {id(parameter) for parameter in parameters_of(optimizer)}
    return any(id(parameter) in own for parameter in module.parameters())


def parameters_of(optimizer: Optimizer) -> Iterator[torch.Tensor]:
    """Yield them, group by group."""
    for group in optimizer.param_groups:
        yield from group["params"]


def device_of(parameters: Iterator[torch.Tensor]) -> str:
    """Return the device of the first one, or that in use where there is none."""
    first = next(parameters, None)
    return device_in_use() if first is None else str(first.device)


def device_in_use() -> str:
    """Return the GPU of this process, if it uses one yet."""
    if torch.cuda.is_initialized():
        return f"cuda:{torch.cuda.current_device()}"
    return "cpu"


def has_values(tensor: torch.Tensor) -> bool:
    """Return whether it is no tensor of the meta device, nor a fake one, by which work is only counted."""
    return not tensor.is_meta and type(tensor).__name__ != "FakeTensor"
