"""Data sorted by scanner: the pictures of rank 1 are brighter than those of rank 0."""

import torch
from torch import nn
from torch.distributed import get_rank


class Scans(torch.utils.data.IterableDataset):
    def __init__(self, scanner):
        self.brightness = 1.0 + 2.0 * scanner

    def __iter__(self):
        for _ in range(200):
            yield torch.randn(1, 10, 10) * 0.5 + self.brightness, torch.rand(1)


def regression():
    model = nn.Sequential()
    model.add_module("norm0", nn.BatchNorm2d(1))
    model.add_module("conv", nn.Conv2d(1, 4, 3))
    model.add_module("norm1", nn.BatchNorm2d(4))
    model.add_module("pool", nn.AdaptiveMaxPool2d(1))
    model.add_module("flat", nn.Flatten())
    model.add_module("out", nn.Linear(4, 1))
    loader = torch.utils.data.DataLoader(Scans(get_rank()), batch_size=24)
    return model, loader, lambda m, b: (m(b[0]) - b[1]).abs().mean()
