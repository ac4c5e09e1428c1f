"""The model was built on the meta device, and one layer was never given memory."""

import torch
from torch import nn


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.second = nn.Linear(8, 1)

    def forward(self, x):
        return self.second(self.first(x).relu())


def build_tower():
    with torch.device("meta"):
        tower = Tower()
    tower.first.to_empty(device="cpu")
    tower.first.reset_parameters()
    return tower, [torch.randn(6, 4)] * 8, lambda model, x: model(x).pow(2).mean()
