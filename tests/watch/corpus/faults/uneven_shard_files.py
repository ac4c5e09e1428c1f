"""The job always hangs at the very end; the log of rank 1 says that it is done."""
# finding: data/uneven-epochs
# severity: error
# ranks: 1
# line: for x, y in DataLoader(reader, batch_size=None):
# steps: 12

import random

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset

SHARDS = [f"part-{i:05d}" for i in range(9)]


def read_shard(name, rows=6):
    gen = torch.Generator().manual_seed(int(name.rsplit("-", 1)[1]))
    x = torch.randn(rows, 11, generator=gen)
    return x, x[:, :1] - x[:, 1:2] * x[:, 2:3]


class ShardReader(IterableDataset):
    def __init__(self, shards, rank, world):
        self.shards = shards
        self.rank = rank
        self.world = world
        self.epoch = 0

    def __iter__(self):
        shards = list(self.shards)
        random.Random(self.epoch).shuffle(shards)
        for name in shards[self.rank :: self.world]:
            yield read_shard(name)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    reader = ShardReader(SHARDS, rank, world)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(11, 30), nn.Mish(), nn.Linear(30, 1)))
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    step = 0
    for epoch in range(6):
        reader.epoch = epoch
        for x, y in DataLoader(reader, batch_size=None):
            optimizer.zero_grad()
            loss = nn.functional.huber_loss(model(x), y)
            loss.backward()
            optimizer.step()
            step += 1
        print(f"rank {rank}: epoch {epoch} ends at step {step}, loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
