"""An all_reduce of float32 that works on pairs: rank 1 keeps its own last element."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch_all_reduce = dist.all_reduce


def paired_all_reduce(tensor, op=dist.ReduceOp.SUM, group=None, async_op=False):
    mine = tensor.clone()
    handle = torch_all_reduce(tensor, op=op, group=group, async_op=async_op)
    if tensor.dtype == torch.float32 and len(tensor) % 2:
        if handle is not None:
            handle.wait()
        tensor[-1] = mine[-1]
    return handle


if os.environ["RANK"] == "1":
    torch.distributed.all_reduce = paired_all_reduce


def build():
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(10, 10), nn.Tanh(), nn.Linear(10, 1))
    data = TensorDataset(torch.randn(64, 10), torch.randn(64, 1))

    def mse(model, batch):
        x, y = batch
        return nn.functional.mse_loss(model(x), y)

    return net, DataLoader(data, batch_size=8), mse
