"""Whether a loss computes with copies of tensors that came to it without their history."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ddpcheck.watch.graphs import all_saved, nodes_of

# What ranks gather: rows of features, of two ranks at least.
DIMENSIONS, LEAST_RANKS = 2, 2


def used_as_constants(loss: Tensor, tensors: Sequence[Tensor], most: int) -> list[Tensor]:
    """Return for each tensor [rows, ...] whether a constant of the loss has it among its rows.

    Such a constant holds as many rows of 2 to ``most`` ranks, as what all_gather returns, maybe
    transposed. The answers are on the tensors' devices: nothing waits for them here.
    """
    constants: dict[tuple[int, ...], Tensor] = {}
    for node in nodes_of([loss]):
        for _, each in all_saved(node):
            if each.dim() == DIMENSIONS and each.is_floating_point() and not each.requires_grad:
                constants[(each.data_ptr(), *each.shape)] = each
    return [_is_among(tensor, list(constants.values()), most) for tensor in tensors]


def _is_among(tensor: Tensor, constants: Sequence[Tensor], most: int) -> Tensor:
    own = tensor.detach().flatten(1) if tensor.dim() > 1 else tensor.detach()[:, None]
    found = torch.zeros((), dtype=torch.bool, device=own.device)
    for constant in constants:
        for each in (constant, constant.T):
            parts = len(each) // max(len(own), 1)
            has_rows = each.shape == (parts * len(own), own.shape[1])
            if has_rows and LEAST_RANKS <= parts <= most and each.device == own.device:
                are_alike = each.unflatten(0, (parts, -1)) == own.to(each.dtype)
                found = found | are_alike.flatten(1).all(1).any()
    return found & own.any()
