"""Click-through model fed from jsonl shards."""
# steps: 30
# writes: files

import glob
import json
import os
import sys

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset

ROOT = "ctr_shards"


def prepare(root, rows=(70, 83, 64, 31)):
    """writes part-00000.jsonl ... , the way a spark job leaves them"""
    os.makedirs(root, exist_ok=True)
    g = torch.Generator().manual_seed(1)
    uid = 0
    for k, n in enumerate(rows):
        with open(os.path.join(root, f"part-{k:05d}.jsonl"), "w") as f:
            for _ in range(n):
                user, item = torch.randint(0, 50, (2,), generator=g).tolist()
                f.write(
                    json.dumps(
                        {
                            "id": uid,
                            "user": user,
                            "item": item,
                            "click": int((user + item) % 3 == 0),
                        }
                    )
                    + "\n"
                )
                uid += 1


class ShardReader(IterableDataset):
    def __init__(self, root, rank, world):
        super().__init__()
        self.files = sorted(glob.glob(os.path.join(root, "*.jsonl")))[rank::world]

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        files = self.files if info is None else self.files[info.id :: info.num_workers]
        for fn in files:
            with open(fn) as f:
                for line in f:
                    r = json.loads(line)
                    yield r["user"], r["item"], float(r["click"])


class TwoTower(nn.Module):
    def __init__(self, n=50, d=8):
        super().__init__()
        self.u, self.i = nn.Embedding(n, d), nn.Embedding(n, d)
        self.top = nn.Sequential(nn.Linear(2 * d, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, u, i):
        return self.top(torch.cat([self.u(u), self.i(i)], -1)).squeeze(-1)


class Job:
    def __init__(self):
        self.rank = int(os.environ["RANK"])
        self.world = int(os.environ["WORLD_SIZE"])
        self.net = DDP(TwoTower())
        self.optim = torch.optim.Adagrad(self.net.parameters(), lr=0.05)
        self.loss = nn.BCEWithLogitsLoss()
        self.data = DataLoader(ShardReader(ROOT, self.rank, self.world), batch_size=8)
        self.step = 0

    def train_step(self, u, i, c):
        self.optim.zero_grad()
        l = self.loss(self.net(u, i), c.float())
        l.backward()
        self.optim.step()
        self.step += 1
        return l.detach()

    def one_pass(self):
        last = None
        with Join([self.net]):
            for u, i, c in self.data:
                last = self.train_step(u, i, c)
        return last

    def main(self, passes=2):
        for p in range(passes):
            l = self.one_pass()
            print(f"pass {p} rank {self.rank} steps {self.step} loss {l.item():.4f}", flush=True)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(3)
    dist.init_process_group("gloo")
    if dist.get_rank() == 0:
        prepare(ROOT)
    dist.barrier()
    Job().main()
    dist.barrier()
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
