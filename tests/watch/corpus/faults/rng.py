# fault: A08
# finding: data/same-augmentation
# severity: warning
# ranks: 0, 1
# steps: 30

# keyword spotting on synthetic audio: random shift + noise + time mask
import math

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler

SR = 256


class AudioAugment:
    """numpy based, as in most audio repos"""

    def __init__(self, seed):
        self.rng = np.random.RandomState(seed)

    def shift(self, x):
        return np.roll(x, self.rng.randint(-20, 20))

    def noise(self, x):
        return x + self.rng.normal(0, 0.05, size=x.shape).astype(np.float32)

    def mask(self, x):
        s = self.rng.randint(0, len(x) - 16)
        x = x.copy()
        x[s : s + 16] = 0
        return x

    def __call__(self, x):
        x = self.shift(x)
        if self.rng.rand() < 0.8:
            x = self.noise(x)
        return self.mask(x)


class Keywords(Dataset):
    def __init__(self, n, augment=None):
        self.n, self.augment = n, augment

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        label = i % 4
        t = np.arange(SR, dtype=np.float32) / SR
        x = np.sin(2 * math.pi * (3 + 4 * label) * t + 0.1 * i).astype(np.float32)
        if self.augment is not None:
            x = self.augment(x)
        return torch.from_numpy(np.ascontiguousarray(x)).float()[None], label


class Net1d(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(
            nn.Conv1d(1, 8, 9, 4),
            nn.ReLU(),
            nn.Conv1d(8, 16, 9, 4),
            nn.ReLU(),
            nn.AdaptiveAvgPool1d(1),
            nn.Flatten(),
            nn.Linear(16, 4),
        )

    def forward(self, x):
        return self.f(x)


def build_data(cfg, rank, world):
    train = Keywords(cfg["n"], AudioAugment(cfg["seed"]))
    test = Keywords(64)
    s = DistributedSampler(train, world, rank, seed=cfg["seed"])
    return (
        DataLoader(train, cfg["batch"], sampler=s, drop_last=True),
        s,
        DataLoader(
            test, cfg["batch"], sampler=DistributedSampler(test, world, rank, shuffle=False)
        ),
    )


@torch.no_grad()
def accuracy(net, loader):
    net.eval()
    c = torch.zeros(2, dtype=torch.long)
    for x, y in loader:
        c[0] += (net(x).argmax(1) == y).sum()
        c[1] += len(y)
    dist.all_reduce(c)
    net.train()
    return (c[0] / c[1]).item()


def worker():
    cfg = dict(n=160, batch=8, seed=17, epochs=3)
    dist.init_process_group("gloo", init_method="env://")
    torch.set_num_threads(1)
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(cfg["seed"])
    train, sampler, test = build_data(cfg, rank, world)
    net = nn.parallel.DistributedDataParallel(Net1d())
    opt = torch.optim.RMSprop(net.parameters(), lr=2e-3)
    for epoch in range(cfg["epochs"]):
        sampler.set_epoch(epoch)
        for x, y in train:
            loss = nn.functional.cross_entropy(net(x), y, label_smoothing=0.05)
            opt.zero_grad()
            loss.backward()
            opt.step()
        acc = accuracy(net, test)
        if rank == 0:
            print(f"| epoch {epoch} | loss {loss.item():.3f} | acc {acc:.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    worker()
