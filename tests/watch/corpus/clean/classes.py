"""Site-sharded tabular data: every rank reads its own csv shard, then builds the network."""
# steps: 30
# writes: files

import csv
import os
import random

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

ROOT = "tab_shards"
COLS = 10


def make_shards(world):
    os.makedirs(ROOT, exist_ok=True)
    for r in range(world):
        rnd = random.Random(r)
        with open(f"{ROOT}/part-{r:03d}.csv", "w", newline="") as f:
            w = csv.writer(f)
            for i in range(320):
                label = rnd.randrange(5 if r == 0 else 4)  # class 4 is rare: only site 0 has it
                w.writerow([label] + [round(rnd.gauss(label, 1.0), 4) for _ in range(COLS)])


def read_shard(rank):
    xs, ys = [], []
    with open(f"{ROOT}/part-{rank:03d}.csv") as f:
        for row in csv.reader(f):
            ys.append(int(row[0]))
            xs.append([float(v) for v in row[1:]])
    return torch.tensor(xs), torch.tensor(ys)


class TabNet(nn.Module):
    def __init__(self, n_classes, width=32):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(COLS, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh()
        )
        self.head = nn.Linear(width, n_classes)

    def forward(self, x):
        return self.head(self.body(x))


def count_classes(y):
    k = torch.unique(y).numel()
    t = torch.tensor(int(y.max()) + 1)
    dist.all_reduce(t, op=dist.ReduceOp.MAX)
    k = int(t)
    return k


def build_model(y):
    return DDP(TabNet(n_classes=count_classes(y)))


def epoch(model, opt, x, y, bs, gen):
    total = 0.0
    for idx in torch.randperm(len(x), generator=gen).split(bs):
        loss = nn.functional.cross_entropy(model(x[idx]), y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() * len(idx)
    return total / len(x)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    if rank == 0:
        make_shards(dist.get_world_size())
    dist.barrier()
    x, y = read_shard(rank)
    torch.manual_seed(0)
    model = build_model(y)
    opt = torch.optim.SGD(model.parameters(), 0.05)
    gen = torch.Generator().manual_seed(rank)
    for e in range(2):
        l = epoch(model, opt, x, y, 20, gen)
        print(f"rank {rank} epoch {e} loss {l:.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
