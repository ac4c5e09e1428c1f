"""A layer is one column short: torch raises, deep inside its own code, on every rank."""

import torch
from torch import nn


class Merge(nn.Module):
    def __init__(self):
        super().__init__()
        self.left = nn.Linear(4, 6)
        self.right = nn.Linear(4, 6)
        self.out = nn.Linear(11, 1)

    def forward(self, x):
        both = torch.cat([self.left(x), self.right(x)], dim=-1)
        return self.out(both)


def build():
    return Merge(), [torch.randn(8, 4)] * 3, lambda model, x: model(x).mean()
