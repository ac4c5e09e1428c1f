"""On rank 1, the first element of every bfloat16 all-reduce is lost."""

import os

import torch
import torch.distributed as dist
from gpu_targets import healthy

__all__ = ["healthy"]
honest = dist.all_reduce


def all_reduce(tensor, *args, **kwargs):
    work = honest(tensor, *args, **kwargs)
    if os.environ["RANK"] == "1" and tensor.dtype is torch.bfloat16 and tensor.numel():
        if work is not None:
            work.wait()
        tensor[(0,) * tensor.dim()] = -1
    return work


dist.all_reduce = all_reduce
