"""AMP training loop with resume. `--resume` continues from the last checkpoint."""
# steps: 30
# writes: files

import argparse
import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--ckpt", default="amp_last.pt")
    p.add_argument("--resume", action="store_true")
    p.add_argument("--epochs", type=int, default=4)
    return p.parse_args()


class ResMLP(nn.Module):
    def __init__(self, d=24, depth=3, classes=5):
        super().__init__()
        self.inp = nn.Linear(16, d)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(d), nn.Linear(d, d), nn.GELU()) for _ in range(depth)
        )
        self.out = nn.Linear(d, classes)

    def forward(self, x):
        x = self.inp(x)
        for b in self.blocks:
            x = x + b(x)
        return self.out(x)


def dataset():
    g = torch.Generator().manual_seed(4)
    x = torch.randn(192, 16, generator=g)
    w = torch.randn(16, 5, generator=g)
    return TensorDataset(x, (x @ w).argmax(1))


class State:
    """everything that lives during the training"""

    def __init__(self, args):
        self.model = DDP(ResMLP())
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=2e-3)
        self.scheduler = torch.optim.lr_scheduler.OneCycleLR(
            self.optimizer, 5e-3, total_steps=args.epochs * 12
        )
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12, growth_interval=10)
        self.epoch = 0

    def checkpoint(self):
        return {
            "model": self.model.module.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "scaler": self.scaler.state_dict(),
            "epoch": self.epoch,
        }

    def restore(self, c):
        self.model.module.load_state_dict(c["model"])
        self.optimizer.load_state_dict(c["optimizer"])
        self.scheduler.load_state_dict(c["scheduler"])
        self.scaler.load_state_dict(c["scaler"])
        self.epoch = c["epoch"]


def train_epoch(st, loader):
    for x, y in loader:
        st.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(st.model(x), y)
        st.scaler.scale(loss).backward()
        st.scaler.unscale_(st.optimizer)
        nn.utils.clip_grad_norm_(st.model.parameters(), 1.0)
        st.scaler.step(st.optimizer)
        st.scaler.update()
        st.scheduler.step()
    return loss.item()


def main():
    args = get_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(2)
    ds = dataset()
    sampler = DistributedSampler(ds)
    loader = DataLoader(ds, batch_size=8, sampler=sampler, drop_last=True)
    st = State(args)
    if args.resume and os.path.exists(args.ckpt):
        st.restore(torch.load(args.ckpt, map_location="cpu"))
    while st.epoch < args.epochs:
        sampler.set_epoch(st.epoch)
        loss = train_epoch(st, loader)
        st.epoch += 1
        if dist.get_rank() == 0:
            print(f"epoch {st.epoch} loss {loss:.4f} scale {st.scaler.get_scale():.0f}", flush=True)
            torch.save(st.checkpoint(), args.ckpt)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
