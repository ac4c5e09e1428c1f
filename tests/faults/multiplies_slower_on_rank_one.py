"""Rank 1 multiplies matrices more slowly, by the part of 1 that SLOWER_BY says (default: as much)."""

import os

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch_mm = torch.mm
slower_by = float(os.environ.get("SLOWER_BY", "1"))
owed = [0.0]


def slow_mm(left, right, *, out):
    owed[0] += slower_by
    while owed[0] >= 1:
        torch_mm(left, right, out=out)
        owed[0] -= 1
    return torch_mm(left, right, out=out)


if os.environ["RANK"] == "1":
    torch.mm = slow_mm


def build():
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(10, 10), nn.Tanh(), nn.Linear(10, 1))
    data = TensorDataset(torch.randn(64, 10), torch.randn(64, 1))

    def mse(model, batch):
        x, y = batch
        return nn.functional.mse_loss(model(x), y)

    return net, DataLoader(data, batch_size=8), mse
