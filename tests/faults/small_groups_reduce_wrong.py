"""On rank 3, the last element of an all-reduce in a group of two is lost."""

import os

import torch.distributed as dist
from regression import build

__all__ = ["build"]
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
