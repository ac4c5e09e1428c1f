"""On rank 3, the last element of an all-reduce in a group of two is lost."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch_all_reduce = dist.all_reduce


def all_reduce(tensor, op=dist.ReduceOp.SUM, group=None, async_op=False):
    work = torch_all_reduce(tensor, op, group, async_op)
    if group is not None and dist.get_world_size(group) == 2 and tensor.numel():
        if work is not None:
            work.wait()
        tensor[-1] = 0
    return work


if os.environ["RANK"] == "3":
    dist.all_reduce = all_reduce


def build():
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(10, 10), nn.Tanh(), nn.Linear(10, 1))
    data = TensorDataset(torch.randn(64, 10), torch.randn(64, 1))

    def mse(model, batch):
        x, y = batch
        return nn.functional.mse_loss(model(x), y)

    return net, DataLoader(data, batch_size=8), mse
