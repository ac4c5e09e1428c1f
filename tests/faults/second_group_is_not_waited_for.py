"""On rank 1, an asynchronous broadcast in any group but the world's is finished too early."""

import os

import torch.distributed as dist
from regression import build

__all__ = ["build"]
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
