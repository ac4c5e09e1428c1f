"""k-fold cross validation inside a hyper-parameter loop; process group and model are made anew for each trial."""
# steps: 30

import argparse
import gc
import itertools
import json
import os
import random
from contextlib import contextmanager

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, Subset
from torch.utils.data.distributed import DistributedSampler


class Friedman(Dataset):
    """Friedman #1 regression"""

    def __init__(self, n=180, seed=0):
        rs = np.random.RandomState(seed)
        X = rs.rand(n, 8)
        y = (
            10 * np.sin(np.pi * X[:, 0] * X[:, 1])
            + 20 * (X[:, 2] - 0.5) ** 2
            + 10 * X[:, 3]
            + 5 * X[:, 4]
            + rs.normal(0, 0.5, n)
        )
        self.X = torch.tensor(X, dtype=torch.float32)
        self.y = torch.tensor((y - y.mean()) / y.std(), dtype=torch.float32)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.X[i], self.y[i]


def folds(n, k, seed):
    idx = np.random.RandomState(seed).permutation(n)
    parts = np.array_split(idx, k)
    for i in range(k):
        yield np.concatenate([p for j, p in enumerate(parts) if j != i]).tolist(), parts[i].tolist()


class Rendezvous:
    """One store for the whole search; each trial gets its own prefix, since keys of an old group must not be reused."""

    def __init__(self):
        self.store, self.rank, self.world = next(dist.rendezvous("env://"))
        self.count = 0

    @contextmanager
    def group(self):
        self.count += 1
        dist.init_process_group(
            "gloo",
            store=dist.PrefixStore(f"trial-{self.count}", self.store),
            rank=self.rank,
            world_size=self.world,
        )
        try:
            yield self.rank, self.world
            dist.barrier()
        finally:
            dist.destroy_process_group()


def make_model(width, act, norm):
    A = {"relu": nn.ReLU, "silu": nn.SiLU}[act]
    return nn.Sequential(
        nn.Linear(8, width),
        nn.LayerNorm(width) if norm else nn.Identity(),
        A(),
        nn.Linear(width, width),
        A(),
        nn.Linear(width, 1),
        nn.Flatten(0),
    )


class Trial:
    def __init__(self, hp, args):
        self.hp, self.args = hp, args

    def seed(self):
        random.seed(self.args.seed)
        np.random.seed(self.args.seed)
        torch.manual_seed(self.args.seed)

    def fit(self, ds, train_idx, rank, world):
        self.seed()
        train = Subset(ds, train_idx)
        sampler = DistributedSampler(train, world, rank, seed=self.args.seed)
        loader = DataLoader(train, batch_size=self.hp["batch"], sampler=sampler)
        ddp = DDP(
            make_model(self.hp["width"], self.hp["act"], self.hp["norm"]), broadcast_buffers=False
        )
        Opt = getattr(torch.optim, self.hp["opt"])
        opt = Opt(ddp.parameters(), lr=self.hp["lr"])
        for epoch in range(self.args.epochs):
            sampler.set_epoch(epoch)
            for x, y in loader:
                opt.zero_grad()
                nn.functional.huber_loss(ddp(x), y).backward()
                opt.step()
        return ddp

    @torch.no_grad()
    def score(self, ddp, ds, val_idx, rank, world):
        ddp.eval()
        mine = val_idx[rank::world]
        err = torch.zeros(2, dtype=torch.float64)
        for x, y in DataLoader(Subset(ds, mine), batch_size=16):
            err += torch.tensor(
                [(ddp.module(x) - y).pow(2).sum().item(), len(y)], dtype=torch.float64
            )
        dist.all_reduce(err)
        return (err[0] / err[1]).item()

    def run(self, rdzv):
        ds = Friedman()
        scores = []
        with rdzv.group() as (rank, world):
            for k, (tr, va) in enumerate(folds(len(ds), self.args.folds, self.args.seed)):
                ddp = self.fit(ds, tr, rank, world)
                scores.append(self.score(ddp, ds, va, rank, world))
                del ddp
                gc.collect()
            mean = float(np.mean(scores))
            if rank == 0:
                print(json.dumps({**self.hp, "mse": round(mean, 5)}), flush=True)
        return mean


def grid():
    space = {"width": [16, 24], "opt": ["SGD", "Adam"]}
    fixed = {"lr": 0.01, "batch": 15, "act": "silu", "norm": True}
    for combo in itertools.product(*space.values()):
        yield {**fixed, **dict(zip(space, combo))}


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--folds", type=int, default=3)
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--seed", type=int, default=13)
    args = ap.parse_args()
    torch.set_num_threads(1)
    rdzv = Rendezvous()
    best, best_hp = float("inf"), None
    for hp in grid():
        mse = Trial(hp, args).run(rdzv)
        if mse < best:  # all ranks have the same number
            best, best_hp = mse, hp
    if int(os.environ.get("RANK", 0)) == 0:
        print("best", json.dumps(best_hp), round(best, 5), flush=True)


if __name__ == "__main__":
    main()
