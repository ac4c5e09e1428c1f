"""On rank 1, an asynchronous broadcast in any group but the world's is finished too early."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch_broadcast = dist.broadcast
unfinished = []


class Finished:
    def wait(self):
        return True


def broadcast(tensor, src=None, group=None, async_op=False, **named):
    if group is None or not async_op:
        return torch_broadcast(tensor, src, group, async_op, **named)
    staging = tensor.clone()
    unfinished.append((torch_broadcast(staging, src, group, async_op, **named), staging))
    return Finished()


if os.environ["RANK"] == "1":
    dist.broadcast = broadcast


def build():
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(10, 10), nn.Tanh(), nn.Linear(10, 1))
    data = TensorDataset(torch.randn(64, 10), torch.randn(64, 1))

    def mse(model, batch):
        x, y = batch
        return nn.functional.mse_loss(model(x), y)

    return net, DataLoader(data, batch_size=8), mse
