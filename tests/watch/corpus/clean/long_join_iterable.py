# steps: 30
# writes: files

# Streaming click data: IterableDataset sharded by rank and worker, uneven shards, Join context manager.
import hashlib
import itertools
import os

import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join, Joinable, JoinHook
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

NUM_SHARDS = 7
FEATURES = 12


def write_shards(folder):
    """seven files with different numbers of lines"""
    os.makedirs(folder, exist_ok=True)
    g = torch.Generator().manual_seed(8)
    w = torch.randn(FEATURES, generator=g)
    for s in range(NUM_SHARDS):
        with open(os.path.join(folder, f"part-{s:05d}.csv"), "w") as f:
            for _ in range(20 + 9 * s):
                x = torch.randn(FEATURES, generator=g)
                y = int(torch.sigmoid(x @ w) > torch.rand((), generator=g))
                f.write(",".join(f"{v:.5f}" for v in x.tolist()) + f",{y}\n")


class ClickStream(IterableDataset):
    def __init__(self, folder, rank, world, shuffle_buffer=16, seed=0):
        self.files = sorted(os.path.join(folder, f) for f in os.listdir(folder))
        self.rank, self.world, self.buffer, self.seed = rank, world, shuffle_buffer, seed
        self.epoch = 0

    def my_files(self):
        info = get_worker_info()
        wid, nw = (info.id, info.num_workers) if info else (0, 1)
        slot, slots = self.rank * nw + wid, self.world * nw
        return self.files[slot::slots]

    @staticmethod
    def parse(line):
        *x, y = line.strip().split(",")
        return torch.tensor([float(v) for v in x]), torch.tensor(float(y))

    def lines(self):
        for path in self.my_files():
            with open(path) as f:
                for line in f:
                    yield self.parse(line)

    def __iter__(self):
        info = get_worker_info()
        key = f"{self.seed}/{self.epoch}/{self.rank}/{info.id if info else 0}"
        g = torch.Generator().manual_seed(int(hashlib.md5(key.encode()).hexdigest()[:8], 16))
        buf = []
        for item in self.lines():
            if len(buf) < self.buffer:
                buf.append(item)
                continue
            j = int(torch.randint(len(buf), (1,), generator=g))
            buf[j], item = item, buf[j]
            yield item
        yield from buf


class SampleCounter(Joinable):
    """counts the samples seen over all ranks, as in the tutorial on Join"""

    def __init__(self):
        super().__init__()
        self.count = torch.zeros(1)

    def __call__(self, n):
        Join.notify_join_context(self)
        t = torch.tensor([float(n)])
        dist.all_reduce(t)
        self.count += t

    def join_hook(self, **kwargs):
        return CounterHook(self)

    @property
    def join_device(self):
        return torch.device("cpu")

    @property
    def join_process_group(self):
        return dist.group.WORLD


class CounterHook(JoinHook):
    def __init__(self, counter):
        self.counter = counter

    def main_hook(self):
        t = torch.zeros(1)
        dist.all_reduce(t)
        self.counter.count += t


class WideDeep(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.wide = torch.nn.Linear(FEATURES, 1)
        self.deep = torch.nn.Sequential(
            torch.nn.Linear(FEATURES, 24), torch.nn.Tanh(), torch.nn.Linear(24, 1)
        )

    def forward(self, x):
        return (self.wide(x) + self.deep(x)).squeeze(-1)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    if rank == 0:
        write_shards("clicks")
    dist.barrier()
    torch.manual_seed(0)
    stream = ClickStream("clicks", rank, world, seed=99)
    model = DDP(WideDeep())
    opt = torch.optim.SGD(
        model.parameters(), lr=0.2
    )  # stateless: Join only brings the weights together again
    bce = torch.nn.BCEWithLogitsLoss()
    counter = SampleCounter()
    for epoch in range(3):
        stream.epoch = epoch
        loader = DataLoader(stream, batch_size=8, num_workers=2, prefetch_factor=2)
        local = torch.zeros(3)
        with Join([counter, model]):
            for x, y in loader:
                counter(len(y))
                logit = model(x)
                loss = bce(logit, y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                local += torch.tensor(
                    [loss.item() * len(y), ((logit > 0) == (y > 0.5)).sum().item(), len(y)]
                )
        mine = int(local[2])
        dist.all_reduce(local)
        print(f"rank {rank} epoch {epoch} had {mine} samples", flush=True)
        if rank == 0:
            print(
                f"epoch {epoch} loss {local[0] / local[2]:.4f} acc {local[1] / local[2]:.4f}",
                flush=True,
            )
    # both ranks have counted all: the one that joined early shadows the calls of the other
    longest = counter.count.clone()
    dist.all_reduce(longest, op=dist.ReduceOp.MAX)
    lines = sum(len(open(f).readlines()) for f in stream.files)
    if rank == 0:
        print("counted", int(longest.item()), "lines", 3 * lines)
        head = list(itertools.islice(stream.lines(), 2))
        print("example", [round(v, 3) for v in head[0][0][:3].tolist()])
    s = torch.stack([p.double().sum() for p in model.parameters()]).sum().item()
    print(f"rank {rank} sum {s:.6f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
