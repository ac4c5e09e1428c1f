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
    return _are_its_own(module, _tensors_of(state))


def is_its_own_sharded(module: nn.Module, state: Mapping[str, Any]) -> bool:
    """Return whether it is a sharded module's own state: the parts of DTensors that are here.

    Where no part is here, nothing is known.
    """
    tensors = _tensors_of(state)
    here = {name: local_of(each) for name, each in tensors.items()}
    is_sharded = any(here[name].numel() for name, each in tensors.items() if _is_spread(each))
    return is_sharded and _are_its_own(module, here)


def local_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return the part of a DTensor that is here, or the tensor itself, without a history."""
    here: torch.Tensor = getattr(tensor, "_local_tensor", tensor)
    return here.detach()


def version_of(tensor: torch.Tensor) -> int:
    """Return a number that grows as it is changed in place; -1 for one of inference alone.

    What changes a DTensor leaves the count of its part here alone, and the other way round.
    """
    here = local_of(tensor)
    is_counted = not (tensor.is_inference() or here.is_inference())
    return tensor._version + here._version if is_counted else -1


def _tensors_of(state: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    return {name: each for name, each in state.items() if isinstance(each, torch.Tensor)}


def _is_spread(tensor: torch.Tensor) -> bool:
    return hasattr(tensor, "_local_tensor")


def _are_its_own(module: nn.Module, tensors: Mapping[str, torch.Tensor]) -> bool:
    here = ((name, local_of(tensor)) for name, tensor in _named(module))
    own = {name: place for name, tensor in here if (place := _place(tensor))}
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
