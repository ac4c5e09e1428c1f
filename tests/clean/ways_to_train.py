"""Optimizers, wraps and loaders that work, though they are not the usual ones."""

import os
from functools import partial

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, IterableDataset
from torch.utils.data.distributed import DistributedSampler


def net():
    return nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 8))


def batches():
    generator = torch.Generator().manual_seed(int(os.environ["RANK"]))
    return [torch.randn(4, 8, generator=generator) for _ in range(5)]


def loss(model, batch):
    return (model(batch) - batch).square().mean()


def adamw_with_groups():
    model = net()
    decay = [p for p in model.parameters() if p.dim() > 1]
    rest = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
    return model, batches(), loss, torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95))


def static_graph():
    return (
        net(),
        batches(),
        loss,
        None,
        lambda model: DistributedDataParallel(model, static_graph=True),
    )


def without_broadcast_of_buffers():
    return (
        net(),
        batches(),
        loss,
        None,
        partial(DistributedDataParallel, broadcast_buffers=False, bucket_cap_mb=1),
    )


def average(model):
    world = dist.get_world_size()
    for parameter in model.parameters():
        dist.broadcast(parameter.data, src=0)
        parameter.register_post_accumulate_grad_hook(lambda p: dist.all_reduce(p.grad.div_(world)))
    return model


def hand_written_all_reduce():
    return net(), batches(), loss, None, average


class AveragingSGD(torch.optim.SGD):
    """Reduces the gradients when it steps; before that, they differ between ranks."""

    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                dist.all_reduce(parameter.grad)
                parameter.grad /= dist.get_world_size()
        return super().step(closure)


def optimizer_that_averages():
    torch.manual_seed(0)  # every rank builds the same model
    model = net()
    return model, batches(), loss, AveragingSGD(model.parameters(), lr=0.05), lambda model: model


def zero_redundancy_optimizer():
    model = net()
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=1e-3)
    return model, batches(), loss, optimizer


def compressed_to_fp16():
    def wrap(model):
        ddp = DistributedDataParallel(model)
        ddp.register_comm_hook(dist.group.WORLD, default_hooks.fp16_compress_hook)
        return ddp

    return net(), batches(), loss, None, wrap


class CountingParallel(DistributedDataParallel):
    """A subclass that leaves no_sync as it is, but counts."""

    micro_steps = 0

    def no_sync(self):
        self.micro_steps += 1
        return super().no_sync()


def subclass():
    return net(), batches(), loss, None, CountingParallel


class Squares(Dataset):
    def __init__(self, transform):
        self.transform = transform

    def __len__(self):
        return 100

    def __getitem__(self, index):
        return self.transform(torch.full((8,), float(index % 7)))


def loader_with_a_worker():
    squares = Squares(transform=lambda row: row.square() / 49)
    return (
        net(),
        DataLoader(squares, batch_size=10, num_workers=1, sampler=DistributedSampler(squares)),
        loss,
    )


class Shards(IterableDataset):
    def __iter__(self):
        for number in range(dist.get_rank(), 60, dist.get_world_size()):
            yield torch.linspace(0, number, 8)


def iterable_dataset():
    return net(), DataLoader(Shards(), batch_size=6), loss


def short_last_batch():
    torch.manual_seed(dist.get_rank())
    data = torch.randn(7, 8)
    return net(), DataLoader(data, batch_size=4), loss


class Endless:
    """A stream that goes on where it was: iterating does not rewind it."""

    def __init__(self):
        self.generator = torch.Generator().manual_seed(dist.get_rank())

    def __iter__(self):
        while True:
            yield torch.randn(4, 8, generator=self.generator)


def endless_stream():
    return net(), Endless(), loss
