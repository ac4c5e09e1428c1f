"""Each rank has pictures of its own, of which it draws the same places; their kinds take turns."""
# steps: 12
# silent: data/same-batches

import random

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Jitter:
    def __init__(self, strength):
        self.strength = strength

    def __call__(self, picture):
        return picture * (1 + self.strength * (random.random() - 0.5))


class Pictures(Dataset):
    def __init__(self, transforms, rank, count=96):
        g = torch.Generator().manual_seed(rank)
        self.pixels = torch.randn(count, 3, 8, 8, generator=g)
        self.kinds = torch.arange(count) % 4
        self.transforms = transforms

    def __len__(self):
        return len(self.kinds)

    def __getitem__(self, i):
        picture = self.pixels[i]
        for transform in self.transforms:
            picture = transform(picture)
        return picture, self.kinds[i]


def flip(picture):
    return picture.flip(-1) if random.random() < 0.5 else picture


def loop(model, loader, optimizer):
    for picture, kind in loader:
        optimizer.zero_grad()
        F.cross_entropy(model(picture), kind).backward()
        optimizer.step()


def main(seed=3, epochs=2):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(seed)  # one start for all
    random.seed(seed + dist.get_rank())  # augmentation
    data = Pictures([flip, Jitter(0.2)], dist.get_rank())
    loader = DataLoader(data, batch_size=8, shuffle=True, drop_last=True)
    model = nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(216, 4))
    model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(epochs):
        loop(model, loader, optimizer)
    dist.destroy_process_group()


main()
