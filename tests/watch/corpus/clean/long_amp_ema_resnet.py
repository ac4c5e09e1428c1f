"""Small ResNet: bf16 autocast, GradScaler (off on CPU), EMA, warm-up + cosine, clipping, early stopping."""
# steps: 30
# writes: files

import argparse
import contextlib
import copy
import logging
import math
import os
import random

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.amp import GradScaler, autocast
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

LOG = logging.getLogger("resnet")


class Shapes(Dataset):
    def __init__(self, n, train):
        rs = np.random.RandomState(0 if train else 1)
        self.y = rs.randint(0, 3, n)
        self.x = rs.normal(0, 0.6, (n, 3, 12, 12)).astype("float32")
        for i, c in enumerate(self.y):
            r, q = rs.randint(2, 6, 2)
            if c == 0:
                self.x[i, 0, r : r + 4, q : q + 4] += 2
            elif c == 1:
                self.x[i, 1, r, :] += 2
            else:
                self.x[i, 2, :, q] += 2
        self.train = train

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        img = torch.from_numpy(self.x[i])
        if self.train and random.random() < 0.5:  # the python RNG of each rank has its own seed
            img = img.flip(-1)
        return img, int(self.y[i])


class BasicBlock(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.c1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.n1 = nn.GroupNorm(4, cout)
        self.c2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.n2 = nn.GroupNorm(4, cout)
        self.short = (
            nn.Identity()
            if stride == 1 and cin == cout
            else nn.Conv2d(cin, cout, 1, stride, bias=False)
        )

    def forward(self, x):
        y = torch.relu(self.n1(self.c1(x)))
        return torch.relu(self.n2(self.c2(y)) + self.short(x))


def resnet(width=8):
    return nn.Sequential(
        nn.Conv2d(3, width, 3, 1, 1),
        BasicBlock(width, width),
        BasicBlock(width, 2 * width, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(2 * width, 3),
    )


class ModelEMA:
    def __init__(self, model, decay):
        self.module = copy.deepcopy(model).eval().requires_grad_(False)
        self.decay, self.updates = decay, 0

    @torch.no_grad()
    def update(self, model):
        self.updates += 1
        d = min(self.decay, (1 + self.updates) / (10 + self.updates))
        for e, p in zip(self.module.state_dict().values(), model.state_dict().values()):
            if e.is_floating_point():
                e.lerp_(p, 1 - d)
            else:
                e.copy_(p)


class EarlyStopper:
    def __init__(self, patience):
        self.patience, self.best, self.bad = patience, math.inf, 0

    def step(self, value):
        """rank 0 decides, everybody hears"""
        stop = torch.zeros(1)
        if dist.get_rank() == 0:
            if value < self.best - 0.1:
                self.best, self.bad = value, 0
            else:
                self.bad += 1
            stop[0] = float(self.bad >= self.patience)
        dist.broadcast(stop, src=0)
        return bool(stop.item())


def seed_all(seed, rank):
    torch.manual_seed(seed)  # weights
    random.seed(seed + rank)  # augmentation
    np.random.seed(seed + rank)


@torch.no_grad()
def evaluate(net, loader, rank):
    """only rank 0 has a loader: EMA weights are alike everywhere; the others get the number"""
    out = torch.zeros(2)
    if rank == 0:
        tot = n = hit = 0
        for x, y in loader:
            z = net(x)
            tot += nn.functional.cross_entropy(z, y, reduction="sum").item()
            hit += (z.argmax(1) == y).sum().item()
            n += len(y)
        out = torch.tensor([tot / n, hit / n])
    dist.broadcast(out, 0)
    return out.tolist()


def train_one(ddp, ema, loader, opt, sched, scaler, args):
    ddp.train()
    run = 0.0
    for i, (x, y) in enumerate(loader):
        last = (i + 1) % args.accum == 0
        with contextlib.nullcontext() if last else ddp.no_sync():
            with autocast("cpu", dtype=torch.bfloat16):
                loss = nn.functional.cross_entropy(ddp(x), y) / args.accum
            scaler.scale(loss).backward()
        run += loss.item()
        if last:
            scaler.unscale_(opt)
            nn.utils.clip_grad_norm_(ddp.parameters(), args.clip)
            scaler.step(opt)
            scaler.update()
            opt.zero_grad(set_to_none=True)
            sched.step()
            ema.update(ddp.module)
    return run * args.accum / len(loader)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=6)
    ap.add_argument("--batch", type=int, default=8)
    ap.add_argument("--accum", type=int, default=2)
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--clip", type=float, default=1.0)
    ap.add_argument("--patience", type=int, default=1)
    args = ap.parse_args()
    dist.init_process_group("gloo")
    rank = int(os.environ["RANK"])
    logging.basicConfig(
        level=logging.INFO if rank == 0 else logging.ERROR, format="%(name)s: %(message)s"
    )
    torch.set_num_threads(1)
    seed_all(3, rank)
    ds = Shapes(128, True)
    sampler = DistributedSampler(ds, seed=3)
    loader = DataLoader(ds, args.batch, sampler=sampler, drop_last=True)
    val = DataLoader(Shapes(48, False), 16) if rank == 0 else None
    ddp = DDP(resnet(), gradient_as_bucket_view=True)
    ema = ModelEMA(ddp.module, 0.98)
    opt = torch.optim.AdamW(ddp.parameters(), lr=args.lr, weight_decay=0.02)
    total, warm = args.epochs * (len(loader) // args.accum), 4
    sched = torch.optim.lr_scheduler.SequentialLR(
        opt,
        [
            torch.optim.lr_scheduler.LinearLR(opt, 0.1, 1.0, warm),
            torch.optim.lr_scheduler.CosineAnnealingLR(opt, total - warm),
        ],
        milestones=[warm],
    )
    scaler = GradScaler("cpu", enabled=False)
    stopper = EarlyStopper(args.patience)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        loss = train_one(ddp, ema, loader, opt, sched, scaler, args)
        vloss, acc = evaluate(ema.module, val, rank)
        LOG.info(
            "epoch %d train %.4f val %.4f acc %.4f lr %.6f",
            epoch,
            loss,
            vloss,
            acc,
            sched.get_last_lr()[0],
        )
        if rank == 0:
            print(f"epoch {epoch} val {vloss:.4f}", flush=True)
            torch.save(
                {
                    "model": ddp.module.state_dict(),
                    "ema": ema.module.state_dict(),
                    "opt": opt.state_dict(),
                    "sched": sched.state_dict(),
                    "scaler": scaler.state_dict(),
                    "epoch": epoch,
                },
                "last.pth",
            )
        if stopper.step(vloss):
            if rank == 0:
                print("early stop at", epoch, flush=True)
            break
    w = sum(p.double().abs().sum() for p in ema.module.parameters()).item()
    print(f"rank {rank} ema {w:.5f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
