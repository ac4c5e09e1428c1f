"""What a state that is loaded is made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn


def is_its_own(module: nn.Module, state: Mapping[str, Any]) -> bool:
    """Return whether each tensor of a state is the module's of that name, and so nothing is loaded.

    Tensors of other classes (sharded, quantized) are not looked into.
    """
    own = {name: place for name, tensor in _named(module) if (place := _place(tensor))}
    tensors = {name: each for name, each in state.items() if isinstance(each, torch.Tensor)}
    return bool(tensors) and all(
        own.get(name) == _place(tensor) is not None or not tensor.numel()
        for name, tensor in tensors.items()
    )


def versions_of(module: nn.Module) -> tuple[int, ...]:
    """Return how often each tensor of a module was changed in place."""
    return tuple(tensor._version for _, tensor in _named(module))


def _named(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)


def _place(tensor: torch.Tensor) -> tuple[str, int] | None:
    """Return where a tensor's values are, None where it has none, or it is not known."""
    if type(tensor) not in {torch.Tensor, nn.Parameter} or tensor.is_meta or not tensor.numel():
        return None
    return str(tensor.device), tensor.data_ptr()
