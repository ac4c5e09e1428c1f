"""Loaders that need little room: few workers, none, or copies where something is kept."""

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, get_worker_info

from ddpcheck.target.target import Target


class Wide(Dataset):
    """Samples of 4 MB."""

    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.full((1024, 1024), float(index % 3))


class Endless(IterableDataset):
    """A stream without a length, another one on each rank."""

    def __init__(self, rank):
        self.rank = rank

    def __iter__(self):
        number = get_worker_info().id + self.rank
        while True:
            number += 1
            yield torch.full((8,), float(number % 5))


def first_values(model, batch):
    return model(batch[:, 0, :8]).square().mean()


def labelled():
    torch.manual_seed(dist.get_rank())
    return TensorDataset(torch.randn(1024, 8), torch.randint(2, (1024,)))


def keeping(kept, keep):
    """Return a loss that keeps what ``keep`` makes of the labels."""

    def loss(model, batch):
        inputs, wanted = batch
        kept.append(keep(wanted))
        return nn.functional.cross_entropy(model(inputs), wanted)

    return loss


def small_batches_by_two_workers():
    loader = DataLoader(labelled(), batch_size=4, num_workers=2)
    return Target(nn.Linear(8, 2), loader, keeping([], len))


def large_batches_without_workers():
    return Target(nn.Linear(8, 1), DataLoader(Wide(), batch_size=1), first_values)


def all_kept_without_workers():
    loader = DataLoader(labelled(), batch_size=4)
    return Target(nn.Linear(8, 2), loader, keeping([], lambda wanted: wanted))


def copies_kept():
    loader = DataLoader(labelled(), batch_size=4, num_workers=2)
    return Target(nn.Linear(8, 2), loader, keeping([], torch.clone))


def the_last_batch_kept():
    last = {}

    def loss(model, batch):
        last["batch"] = batch
        inputs, wanted = batch
        return nn.functional.cross_entropy(model(inputs), wanted)

    loader = DataLoader(labelled(), batch_size=4, num_workers=2, persistent_workers=True)
    return Target(nn.Linear(8, 2), loader, loss)


def an_endless_stream():
    loader = DataLoader(Endless(dist.get_rank()), batch_size=4, num_workers=2)
    return Target(nn.Linear(8, 1), loader, lambda model, batch: model(batch).square().mean())
