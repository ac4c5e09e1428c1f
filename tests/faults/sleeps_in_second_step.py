"""Rank 1 waits in its second step for a file that never comes."""

import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn


def wait_for_features(path):
    while not path.exists():
        time.sleep(1)


class Loss:
    step = 0

    def __call__(self, model, batch):
        if self.step == 1 and dist.get_rank() == 1:
            wait_for_features(Path("/nonexistent/features-1.pt"))
        self.step += 1
        return model(batch).abs().mean()


def offline():
    return nn.Linear(4, 2), [torch.randn(3, 4)] * 5, Loss()
