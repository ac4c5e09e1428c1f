"""One training step, right on any number of ranks."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from ddpcheck.target.minigpt import count_predictions, next_byte_loss, summed_next_byte_loss
from ddpcheck.train.recipe import Recipe

PEAK_LEARNING_RATE = 3e-3
# The share of the peak that is left at the end.
FINAL_SHARE = 0.1
WARM_UP_STEPS = 20
WEIGHT_DECAY = 0.1
MAX_GRADIENT_NORM = 1.0

HALF = {"bf16": torch.bfloat16, "fp16": torch.float16}


def replicate(model: nn.Module, recipe: Recipe, device: torch.device) -> DistributedDataParallel:
    """Return the model as one of equal replicas on all ranks; it must be on ``device``."""
    if recipe.sync_batchnorm:
        model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    return DistributedDataParallel(
        model,
        device_ids=[device.index] if device.type == "cuda" else None,
        bucket_cap_mb=recipe.bucket_cap_mb,
        find_unused_parameters=recipe.find_unused_parameters,
        gradient_as_bucket_view=recipe.gradient_as_bucket_view,
    )


def adamw(model: nn.Module) -> torch.optim.AdamW:
    """Return AdamW over the model; only matrices decay, not biases and norms."""
    parameters = [each for each in model.parameters() if each.requires_grad]
    groups = [
        {"params": [each for each in parameters if each.dim() > 1], "weight_decay": WEIGHT_DECAY},
        {"params": [each for each in parameters if each.dim() <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=PEAK_LEARNING_RATE, betas=(0.9, 0.95))


def learning_rate(step: int, steps: int) -> float:
    """Return the rate of ``step`` (from 1) of ``steps``: a linear warm-up, then a cosine."""
    warm_up = min(WARM_UP_STEPS, max(steps // 10, 1))
    if step <= warm_up:
        return PEAK_LEARNING_RATE * step / warm_up
    done = (step - warm_up) / (steps - warm_up)
    share = FINAL_SHARE + (1 - FINAL_SHARE) * (1 + math.cos(math.pi * done)) / 2
    return PEAK_LEARNING_RATE * share


def global_mean(summed: Tensor, count: int, world_size: int) -> tuple[Tensor, Tensor]:
    """Return (loss to differentiate, this rank's share of the global mean loss).

    ``summed`` is the sum of the losses of this rank's ``count`` predictions. DDP takes the
    mean of the ranks' gradients. A loss that is a mean over the rank would give the mean of
    means, which weighs a rank with fewer predictions too much; summed / global count *
    world size gives the gradient of the true mean. The shares of all ranks add up to it.
    """
    # Filled on the device: copying a number there would wait for the device, every step.
    total = torch.full((), count, device=summed.device)
    if world_size > 1:
        dist.all_reduce(total)
    share = summed / total
    return share * world_size, share.detach()


@dataclass(frozen=True)
class Trainer:
    """What a step needs; ``world_size`` is that of the ranks which step together."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    precision: str
    device: torch.device
    steps: int
    world_size: int

    def step(self, number: int, batch: Tensor) -> Tensor:
        """Train on this rank's batch, int64 [rank_batch, block + 1], as step ``number`` (from 1).

        Returns this rank's share of the global mean loss before the step.
        """
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(number, self.steps)
        batch = batch.to(self.device, non_blocking=True)
        with self.autocast():
            summed = summed_next_byte_loss(self.model, batch)
        loss, share = global_mean(summed, count_predictions(batch), self.world_size)
        self.scaler.scale(loss).backward()
        # The gradients are the same on all ranks by now: so is the norm, and the clipping.
        self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.model.parameters(), MAX_GRADIENT_NORM)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
        return share

    def mean_loss(self, model: nn.Module, batch: Tensor) -> Tensor:
        """Return the mean loss of this rank's batch, in the precision of the training."""
        with self.autocast():
            return next_byte_loss(model, batch.to(self.device, non_blocking=True))

    def autocast(self) -> torch.autocast:
        """Return the context in which the forward pass runs."""
        return torch.autocast(
            self.device.type, HALF.get(self.precision), enabled=self.precision in HALF
        )


def trainer_of(
    model: nn.Module, recipe: Recipe, device: torch.device, steps: int, world_size: int
) -> Trainer:
    """Return a trainer of the model with a new optimizer."""
    return Trainer(
        model=model,
        optimizer=adamw(model),
        # Half-precision gradients underflow without it; bf16 has the range of fp32.
        scaler=torch.amp.GradScaler(device.type, enabled=recipe.precision == "fp16"),
        precision=recipe.precision,
        device=device,
        steps=steps,
        world_size=world_size,
    )
