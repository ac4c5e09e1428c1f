"""A process group is made, destroyed and made again before training, as notebooks and sweeps do."""

import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn


def loss(model, batch):
    return model(batch).square().mean()


def batches():
    generator = torch.Generator().manual_seed(int(os.environ["RANK"]))
    return [torch.randn(4, 8, generator=generator) for _ in range(6)]


def all_ranks():
    return list(range(dist.get_world_size()))


def subgroup():
    for _ in range(3):
        group = dist.new_group(all_ranks())
        dist.all_reduce(torch.ones(4), group=group)
        dist.destroy_process_group(group)
    again = dist.new_group(all_ranks())
    return (
        nn.Linear(8, 1),
        batches(),
        loss,
        None,
        lambda model: nn.parallel.DistributedDataParallel(model, process_group=again),
    )


def whole_group():
    """Meet at a fresh store each time.

    At the launcher's own store torch 2.13's gloo may read the addresses of the group before, and
    fail: that is not healthy, and fails under torchrun alone as well.
    """
    rank, size = dist.get_rank(), dist.get_world_size()
    for _ in range(2):
        place = [tempfile.mkdtemp() if rank == 0 else None]
        dist.broadcast_object_list(place)
        dist.destroy_process_group()
        store = dist.FileStore(f"{place[0]}/store", size)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
    return nn.Linear(8, 1), batches(), loss
