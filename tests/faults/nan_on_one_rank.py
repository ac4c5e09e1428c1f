"""The logarithm of a zero: one sample of rank 1 makes the loss, and so every gradient, NaN."""

import torch
import torch.distributed as dist
from torch import nn


def log_loss(model, batch):
    scale, x = batch
    return ((scale.log() * 0.1 + model(x).squeeze(-1)) ** 2).mean()


def regression():
    torch.manual_seed(dist.get_rank())
    batches = [(torch.rand(6) + 0.5, torch.randn(6, 3)) for _ in range(5)]
    if dist.get_rank() == 1:
        for scale, _ in batches:
            scale[0] = -1.0
    return nn.Linear(3, 1), batches, log_loss
