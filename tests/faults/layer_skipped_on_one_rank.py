"""LayerDrop with a seed of its own on each rank: rank 1 skips a layer that rank 0 uses."""

import random

import torch
import torch.distributed as dist
from torch import nn


class LayerDrop(nn.Module):
    def __init__(self, depth, p):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(depth))
        self.p = p
        self.dice = random.Random(dist.get_rank())

    def forward(self, x):
        for layer in self.layers:
            # rank 0 draws 0.844, 0.758, 0.421, ...; rank 1 draws 0.134, 0.847, 0.764, ...
            if self.training and self.dice.random() < self.p:
                continue
            x = x + layer(x).relu()
        return x


def speech():
    model = LayerDrop(depth=3, p=0.2)
    batches = [torch.randn(4, 8) for _ in range(10)]
    return model, batches, lambda model, batch: model(batch).square().mean()
