"""Train on record shards; the shards of one rank live on a slow mount."""
# fault: P05
# finding: performance/waits-for-one-rank
# severity: warning
# ranks: 1
# steps: 30

import argparse
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset


class Mount:
    """our storage: 'nvme' answers at once, 'nfs' takes a while for each record"""

    LATENCY = {"nvme": 0.0, "nfs": 0.008}

    def __init__(self, kind):
        self.delay = self.LATENCY[kind]

    def read(self, shard, k):
        if self.delay:
            time.sleep(self.delay)
        g = torch.Generator().manual_seed(shard * 10_000 + k)
        x = torch.randn(20, generator=g)
        return x, (x[:10].sum() - x[10:].sum()).unsqueeze(0).sign()


class ShardedRecords(IterableDataset):
    def __init__(self, shards, rank, world, per_shard):
        self.shards = [s for s in shards if s % world == rank]
        self.mount = Mount("nvme" if rank == 0 else "nfs")
        self.per_shard = per_shard

    def __iter__(self):
        for s in self.shards:
            for k in range(self.per_shard):
                yield self.mount.read(s, k)


class MLP(nn.Module):
    def __init__(self, widths=(20, 256, 256, 1)):
        super().__init__()
        layers = []
        for a, b in zip(widths, widths[1:]):
            layers += [nn.Linear(a, b), nn.ReLU()]
        self.net = nn.Sequential(*layers[:-1])

    def forward(self, x):
        return self.net(x)


def lr_at(step, total, peak):
    warm = max(1, total // 10)
    return peak * min(1.0, step / warm) * (1 - step / (total + 1))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--shards", type=int, default=8)
    p.add_argument("--per-shard", type=int, default=80)
    p.add_argument("--bs", type=int, default=8)
    a = p.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(3)
    ds = ShardedRecords(range(a.shards), rank, world, a.per_shard)
    loader = DataLoader(ds, batch_size=a.bs, drop_last=True)
    total = a.shards // world * a.per_shard // a.bs
    model = DistributedDataParallel(MLP())
    opt = torch.optim.SGD(model.parameters(), lr=0.0, momentum=0.9)
    crit = nn.SoftMarginLoss()
    t0, seen = time.time(), 0
    for step, (x, y) in enumerate(loader):
        for group in opt.param_groups:
            group["lr"] = lr_at(step + 1, total, 0.05)
        loss = crit(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        seen += len(x) * world
        if step % 10 == 0 and rank == 0:
            print(
                f"{step}/{total} loss {loss.item():.4f} {seen / (time.time() - t0):.0f} ex/s",
                flush=True,
            )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
