"""Rank 0 evaluates alone, and its losses are averaged over ranks there as they are in the training.

The next training step of the other rank answers the first of these, and then comes with a bucket of
DDP, which gloo cannot pair: it aborts rank 0 while the other one is at work.
"""

import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

# The launcher is to hear of rank 0 before the other rank does.
SLOW_S = 1.5


class Slow(torch.autograd.Function):
    @staticmethod
    def forward(_ctx, values):
        return values.clone()

    @staticmethod
    def backward(_ctx, gradient):
        time.sleep(SLOW_S)
        return gradient


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(16, 256), nn.Linear(256, 256)

    def forward(self, inputs):
        return self.last(Slow.apply(self.first(inputs)))


def logged(loss):
    losses = torch.stack([loss.detach(), loss.detach() * 2])
    dist.all_reduce(losses)


def main():
    dist.init_process_group("gloo")
    model = DistributedDataParallel(Model(), bucket_cap_mb=0.05)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(2):
        loss = model(torch.randn(8, 16)).square().mean()
        logged(loss)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if dist.get_rank() == 0:
            evaluate(model)
    dist.destroy_process_group()


@torch.no_grad()
def evaluate(model):
    for _ in range(4):
        logged(model.module(torch.randn(8, 16)).square().mean())


if __name__ == "__main__":
    main()
