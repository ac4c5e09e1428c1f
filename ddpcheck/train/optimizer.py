"""The optimizer that every strategy trains with, and its learning rate."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

PEAK_LEARNING_RATE = 3e-3
# The share of the peak that is left at the end.
FINAL_SHARE = 0.1
WARM_UP_STEPS = 20
WEIGHT_DECAY = 0.1
BETAS = (0.9, 0.95)
EPSILON = 1e-8
MAX_GRADIENT_NORM = 1.0
ADAMW: dict[str, Any] = {"lr": PEAK_LEARNING_RATE, "betas": BETAS, "eps": EPSILON}


def adamw(model: nn.Module) -> torch.optim.AdamW:
    """Return AdamW over what the model holds now: shards must have been made before."""
    # None: torch's own choice, a dozen kernels a group. A small model waits for their launches.
    fused = _fits_one_kernel(model) or None
    return torch.optim.AdamW(parameter_groups(model), fused=fused, **ADAMW)


def _fits_one_kernel(model: nn.Module) -> bool:
    # It takes no mixture of plain and distributed tensors, which tp has.
    return all(type(each) is nn.Parameter and each.is_cuda for each in model.parameters())


def parameter_groups(model: nn.Module) -> list[dict[str, Any]]:
    """Return the groups of parameters; only matrices decay, not biases and norms."""
    parameters = [each for each in model.parameters() if each.requires_grad]
    return [
        {"params": [each for each in parameters if each.dim() > 1], "weight_decay": WEIGHT_DECAY},
        {"params": [each for each in parameters if each.dim() <= 1], "weight_decay": 0.0},
    ]


def learning_rate(step: int, steps: int) -> float:
    """Return the rate of ``step`` (from 1) of ``steps``: a linear warm-up, then a cosine."""
    warm_up = min(WARM_UP_STEPS, max(steps // 10, 1))
    if step <= warm_up:
        return PEAK_LEARNING_RATE * step / warm_up
    done = (step - warm_up) / (steps - warm_up)
    share = FINAL_SHARE + (1 - FINAL_SHARE) * (1 + math.cos(math.pi * done)) / 2
    return PEAK_LEARNING_RATE * share


def adamw_by_the_book(
    weight: Tensor, gradients: Sequence[Tensor], rates: Sequence[float]
) -> Iterator[Tensor]:
    """Yield a weight after each of its gradients, float64: what ``adamw`` does, written out.

    Loshchilov and Hutter, Decoupled Weight Decay Regularization, ICLR 2019, algorithm 2.
    """
    decay = WEIGHT_DECAY if weight.dim() > 1 else 0.0
    weight = weight.double()
    first, second = torch.zeros_like(weight), torch.zeros_like(weight)
    for step, (gradient, rate) in enumerate(zip(gradients, rates, strict=True), 1):
        first = BETAS[0] * first + (1 - BETAS[0]) * gradient.double()
        second = BETAS[1] * second + (1 - BETAS[1]) * gradient.double().square()
        mean = first / (1 - BETAS[0] ** step)
        size = (second / (1 - BETAS[1] ** step)).sqrt()
        weight = weight * (1 - rate * decay) - rate * mean / (size + EPSILON)
        yield weight
