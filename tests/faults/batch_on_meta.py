"""The loader of rank 1 gives tensors that hold no data: they are on the meta device."""

import torch
from torch import nn
from torch.distributed import get_rank


class SyntheticLoader:
    """Made for throughput tests, with a device that one rank got wrong."""

    def __init__(self, steps, device):
        self.steps = steps
        self.device = device

    def __len__(self):
        return self.steps

    def __iter__(self):
        for _ in range(self.steps):
            yield {
                "x": torch.ones(8, 5, device=self.device),
                "y": torch.zeros(8, dtype=torch.long, device=self.device),
            }


def make_training():
    device = "meta" if get_rank() == 1 else "cpu"
    net = nn.Linear(5, 2)

    def loss(net, batch):
        return nn.functional.cross_entropy(net(batch["x"]), batch["y"])

    return net, SyntheticLoader(20, device), loss
