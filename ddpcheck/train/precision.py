"""Number formats: in which one the forward pass runs, and how fp16 keeps its gradients."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from ddpcheck.train.parallel import Place
from ddpcheck.train.recipe import Recipe

# torch begins at 2**16, at which small batches overflow: their steps would be skipped.
INITIAL_SCALE = 2.0**12
HALF = {"bf16": torch.bfloat16, "fp16": torch.float16}


def autocast(place: Place) -> torch.autocast:
    """Return the context in which the forward pass of a model in fp32 runs."""
    half = HALF.get(place.recipe.precision)
    return torch.autocast(place.device.type, half, enabled=half is not None)


class AgreedScaler(torch.amp.GradScaler):
    """A gradient scaler with which all ranks skip a step where one of them found infinity.

    Where each rank holds a part of the gradients, only one may see it. The others would update
    their part, and go on with another scale.
    """

    def unscale_(self, optimizer: torch.optim.Optimizer) -> None:
        """Divide the optimizer's gradients by the scale; all ranks must call this."""
        super().unscale_(optimizer)
        if not self.is_enabled() or not dist.is_initialized():
            return
        state: dict[str, Any] = self._per_optimizer_states[id(optimizer)]
        for found in state["found_inf_per_device"].values():
            dist.all_reduce(found, dist.ReduceOp.MAX)


def gradient_scaler(place: Place) -> torch.amp.GradScaler:
    """Return what scales the loss so that fp16 gradients do not underflow; idle otherwise.

    bf16 has the range of fp32 and needs none.
    """
    kind = AgreedScaler if place.everyone.size > 1 else torch.amp.GradScaler
    return kind(
        place.device.type, init_scale=INITIAL_SCALE, enabled=place.recipe.precision == "fp16"
    )


def tf32_allowed(recipe: Recipe) -> bool:
    """Return whether matrix products of fp32 may run in TF32, with 10 bits instead of 23."""
    return recipe.device == "cuda" and torch.get_float32_matmul_precision() != "highest"
