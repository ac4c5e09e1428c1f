"""Shards of unequal length: ranks ask each other before each step whether all still have a batch."""
# steps: 0

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, IterableDataset


class Shard(IterableDataset):
    def __init__(self, n, seed):
        self.n, self.seed = n, seed

    def __iter__(self):
        g = torch.Generator().manual_seed(self.seed)
        for _ in range(self.n):
            x = torch.randn(6, generator=g)
            yield x, x.sum().gt(0).long()


def lockstep(loader):
    it = iter(loader)
    while True:
        batch = next(it, None)
        flag = torch.tensor(0 if batch is None else 1)
        dist.all_reduce(flag, op=dist.ReduceOp.MIN)
        if not flag:
            return
        yield batch


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    loader = DataLoader(Shard(120 + 37 * rank, rank), batch_size=8)
    net = nn.parallel.DistributedDataParallel(
        nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
    )
    opt = torch.optim.SGD(net.parameters(), 0.1)
    for epoch in range(3):
        for x, y in lockstep(loader):
            opt.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            opt.step()
    dist.destroy_process_group()


main()
