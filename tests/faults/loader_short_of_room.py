"""Loaders with two workers whose batches need more room than a small host or limit has."""

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from ddpcheck.target.target import Target


class Wide(Dataset):
    """Samples of 4 MB."""

    def __init__(self, rank):
        self.rank = rank

    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.full((1024, 1024), float((index + self.rank) % 3))


def loss(model, batch):
    return model(batch[:, 0, :8]).square().mean()


def four_megabytes_a_sample():
    return Target(
        nn.Linear(8, 1), DataLoader(Wide(dist.get_rank()), batch_size=1, num_workers=2), loss
    )


def every_batch_kept():
    """Keep the labels of all batches, as for a confusion matrix at the end of the epoch."""
    torch.manual_seed(dist.get_rank())
    data = TensorDataset(torch.randn(1024, 8), torch.randint(2, (1024,)))
    labels = []

    def loss(model, batch):
        inputs, wanted = batch
        labels.append(wanted)
        return nn.functional.cross_entropy(model(inputs), wanted)

    return Target(nn.Linear(8, 2), DataLoader(data, batch_size=4, num_workers=2), loss)
