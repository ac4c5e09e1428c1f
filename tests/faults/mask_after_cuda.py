"""Chooses its GPU by a mask, after a question that made the driver read the mask."""

import os

import torch
from torch import nn

if torch.cuda.is_available():
    print("GPUs found")
os.environ["CUDA_VISIBLE_DEVICES"] = "1"


def make():
    batches = [torch.randn(4, 8) for _ in range(6)]
    return nn.Linear(8, 1), batches, lambda model, batch: model(batch).square().mean()
