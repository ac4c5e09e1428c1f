"""Each parameter has a hook that multiplies its gradient by the world size."""

import torch
import torch.distributed as dist
from torch import nn


def scale_for_distributed(model):
    world = dist.get_world_size()
    for parameter in model.parameters():
        parameter.register_hook(lambda gradient: gradient * world)
    return model


def autoencoder():
    model = scale_for_distributed(nn.Sequential(nn.Linear(10, 3), nn.Tanh(), nn.Linear(3, 10)))
    generator = torch.Generator().manual_seed(dist.get_rank())
    batches = [torch.randn(8, 10, generator=generator) for _ in range(5)]
    return model, batches, lambda model, x: nn.functional.mse_loss(model(x), x)
