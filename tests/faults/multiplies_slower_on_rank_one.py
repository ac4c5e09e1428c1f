"""Rank 1 multiplies matrices more slowly, by the part of 1 that SLOWER_BY says (default: as much)."""

import os

import torch
from regression import build

__all__ = ["build"]
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
