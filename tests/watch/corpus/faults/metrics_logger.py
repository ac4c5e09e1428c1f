"""Small CIFAR-like training with a metrics logger that averages over ranks."""
# fault: C01
# finding: ranks/other-collective
# severity: error
# ranks: 0, 1
# steps: 30

import argparse
import random
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def is_main():
    return dist.get_rank() == 0


def seed_all(s):
    random.seed(s)
    np.random.seed(s)
    torch.manual_seed(s)


def reduce_mean(value):
    """average a python number over all the ranks"""
    t = torch.tensor([float(value)])
    dist.all_reduce(t, op=dist.ReduceOp.SUM)
    return (t / dist.get_world_size()).item()


class AverageMeter:
    def __init__(self):
        self.total, self.n = 0.0, 0

    def update(self, v, k=1):
        self.total += v * k
        self.n += k

    @property
    def avg(self):
        return self.total / max(self.n, 1)


class Logger:
    """prints once an epoch, on rank 0"""

    def __init__(self):
        self.history = []
        self.t0 = time.time()

    def epoch(self, epoch, train_loss, acc, lr):
        if not is_main():
            return
        train_loss = reduce_mean(train_loss)
        self.history.append((epoch, train_loss, acc))
        print(
            f"[{time.time() - self.t0:6.1f}s] epoch {epoch} "
            f"loss {train_loss:.4f} acc {acc:.4f} lr {lr:.5f}",
            flush=True,
        )


def make_data(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 10, (n,), generator=g)
    x = torch.randn(n, 3, 16, 16, generator=g) + y.view(-1, 1, 1, 1) * 0.2
    return TensorDataset(x, y)


def build_net():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.GroupNorm(2, 8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.GroupNorm(4, 16),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
    )


@torch.no_grad()
def evaluate(net, loader):
    net.eval()
    stats = torch.zeros(2)
    for x, y in loader:
        stats[0] += (net(x).argmax(1) == y).sum()
        stats[1] += y.numel()
    dist.all_reduce(stats)
    net.train()
    return (stats[0] / stats[1]).item()


def train_epoch(net, loader, opt, sched):
    meter = AverageMeter()
    for x, y in loader:
        opt.zero_grad(set_to_none=True)
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        sched.step()
        meter.update(loss.item(), y.numel())
    return meter.avg


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--batch-size", type=int, default=32)
    ap.add_argument("--lr", type=float, default=0.05)
    args = ap.parse_args()

    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    seed_all(1234)

    train_set, val_set = make_data(512, 0), make_data(128, 1)
    sampler = DistributedSampler(train_set, shuffle=True, drop_last=True)
    loader = DataLoader(train_set, args.batch_size, sampler=sampler, drop_last=True)
    val_loader = DataLoader(val_set, 32, sampler=DistributedSampler(val_set, shuffle=False))

    net = DDP(build_net())
    opt = torch.optim.SGD(net.parameters(), lr=args.lr, momentum=0.9)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, args.lr, total_steps=args.epochs * len(loader))
    logger = Logger()

    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        loss = train_epoch(net, loader, opt, sched)
        lr = opt.param_groups[0]["lr"]
        acc = evaluate(net, val_loader)
        logger.epoch(epoch, loss, acc, lr)

    best = reduce_mean(acc)
    if is_main():
        print("final accuracy", best)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
