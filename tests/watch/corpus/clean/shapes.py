"""Small image classifier, DDP. Run with torchrun --nproc-per-node 2."""
# steps: 30

import argparse
import logging

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import BatchSampler, DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

log = logging.getLogger("shapes")


class Shapes(Dataset):
    """Squares, crosses and bars drawn on a 16x16 canvas."""

    def __init__(self, n=256):
        g = torch.Generator().manual_seed(7)
        self.pos = torch.randint(2, 10, (n, 2), generator=g)
        self.kind = torch.randint(0, 3, (n,), generator=g)
        self.noise = torch.rand(n, 1, 16, 16, generator=g) * 0.2

    def __len__(self):
        return len(self.kind)

    def __getitem__(self, i):
        img = self.noise[i].clone()
        y, x = self.pos[i].tolist()
        k = int(self.kind[i])
        if k == 0:
            img[0, y : y + 4, x : x + 4] = 1
        elif k == 1:
            img[0, y + 2, x : x + 5] = 1
            img[0, y : y + 5, x + 2] = 1
        else:
            img[0, y, x : x + 5] = 1
        return img, k


class Net(nn.Module):
    def __init__(self, classes=3):
        super().__init__()
        self.c1 = nn.Conv2d(1, 8, 3, padding=1)
        self.c2 = nn.Conv2d(8, 16, 3, padding=1)
        self.fc = nn.Linear(16 * 16, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.c1(x)), 2)
        x = F.max_pool2d(F.relu(self.c2(x)), 2)
        return self.fc(x.flatten(1))


def build_loader(ds, batch_size, rank, world, workers):
    sampler = DistributedSampler(ds, num_replicas=world, rank=rank, shuffle=True, drop_last=True)
    batches = BatchSampler(sampler, batch_size, drop_last=True)
    return DataLoader(ds, batch_sampler=batches, num_workers=workers)


class Trainer:
    def __init__(self, args):
        self.args = args
        self.rank = dist.get_rank()
        self.loader = build_loader(
            Shapes(args.n), args.bs, self.rank, dist.get_world_size(), args.workers
        )
        self.model = DDP(Net())
        self.opt = torch.optim.SGD(self.model.parameters(), lr=args.lr, momentum=0.9)
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, args.epochs)

    def on_epoch_start(self, epoch):
        # reshuffle
        inner = self.loader.batch_sampler.sampler
        if hasattr(inner, "set_epoch"):
            inner.set_epoch(epoch)

    def train_epoch(self, epoch):
        self.model.train()
        total, hits, seen = 0.0, 0, 0
        for images, labels in self.loader:
            self.opt.zero_grad()
            out = self.model(images)
            loss = F.cross_entropy(out, labels)
            loss.backward()
            self.opt.step()
            total += loss.item() * len(labels)
            hits += (out.argmax(1) == labels).sum().item()
            seen += len(labels)
        self.sched.step()
        if self.rank == 0:
            log.info("epoch %d loss %.4f acc %.3f", epoch, total / seen, hits / seen)

    def fit(self):
        for epoch in range(self.args.epochs):
            self.on_epoch_start(epoch)
            self.train_epoch(epoch)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--n", type=int, default=256)
    ap.add_argument("--bs", type=int, default=16)
    ap.add_argument("--lr", type=float, default=0.05)
    ap.add_argument("--epochs", type=int, default=4)
    ap.add_argument("--workers", type=int, default=0)
    args = ap.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    Trainer(args).fit()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
