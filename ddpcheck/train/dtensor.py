"""Where torch keeps its distributed tensors, and what to do with their gradients."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from ddpcheck.train.parallel import Read

if TYPE_CHECKING or find_spec("torch.distributed.tensor.placement_types"):
    from torch.distributed.tensor import DTensor, Replicate, Shard
else:  # before torch 2.5
    from torch.distributed._tensor import DTensor, Replicate, Shard

__all__ = [
    "DTensor",
    "Replicate",
    "Shard",
    "clip_gradients",
    "collect",
    "gradient",
    "weight",
    "whole",
]

# What torch puts into names around a module that recomputes its activations.
CHECKPOINTED = "_checkpoint_wrapped_module."


def clip_gradients(model: nn.Module, largest: float) -> Tensor:
    """Clip the gradients, plain or sharded, to the norm ``largest``; returns the norm before."""
    norm = nn.utils.clip_grad_norm_(model.parameters(), largest)
    return whole(norm)


def collect(model: nn.Module, read: Read, rank: int) -> dict[str, Tensor]:
    """Return what ``read`` gives for every parameter, whole, on the CPU of rank 0."""
    found: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():
        tensor = whole(read(parameter).detach())
        if rank == 0:
            found[name.replace(CHECKPOINTED, "")] = tensor.cpu()
    return found


def whole(tensor: Tensor) -> Tensor:
    """Return a tensor in full: shards are gathered, on all ranks that hold them."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def weight(parameter: nn.Parameter) -> Tensor:
    """Read a parameter itself: a copy, which training on does not change."""
    return parameter.detach().clone()


def gradient(parameter: nn.Parameter) -> Tensor:
    """Read a parameter's gradient: zeros where it has none."""
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone()
