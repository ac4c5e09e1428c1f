"""ViT-like with activation checkpointing; the wrapper's blocks are driven from outside the model."""
# steps: 30

import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.utils.checkpoint import checkpoint


class PatchEmbed(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.proj = nn.Conv2d(3, d, 4, 4)
        self.pos = nn.Parameter(torch.zeros(1, 16, d))

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2) + self.pos


class ViT(nn.Module):
    def __init__(self, d=32, depth=4, k=6, use_ckpt=False):
        super().__init__()
        self.use_ckpt = use_ckpt
        self.embed = PatchEmbed(d)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(d, 4, 64, 0.0, batch_first=True, norm_first=True)
            for _ in range(depth)
        )
        self.norm = nn.LayerNorm(d)
        self.head = nn.Linear(d, k)

    def forward(self, x):
        x = self.embed(x)
        for b in self.blocks:
            x = checkpoint(b, x, use_reentrant=False) if self.use_ckpt and self.training else b(x)
        return self.head(self.norm(x).mean(1))


class Flowers(torch.utils.data.Dataset):
    def __len__(self):
        return 512

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        y = i % 6
        x = torch.randn(3, 16, 16, generator=g)
        x[y % 3, :, (y // 3) * 8 : (y // 3) * 8 + 8] += 1.0
        return x, y


def get_core(m):
    return m.module if hasattr(m, "module") else m


def train_epoch(model, loader, opt, sched):
    for x, y in loader:
        out = model(x)
        loss = nn.functional.cross_entropy(out, y, label_smoothing=0.1)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
    return loss.item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--lr", type=float, default=1e-3)
    a = ap.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(ViT(use_ckpt=True))
    ds = Flowers()
    s = torch.utils.data.DistributedSampler(ds)
    dl = torch.utils.data.DataLoader(ds, 16, sampler=s, drop_last=True)
    opt = torch.optim.AdamW(model.parameters(), a.lr)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, a.lr, total_steps=a.epochs * len(dl))
    for e in range(a.epochs):
        s.set_epoch(e)
        l = train_epoch(model, dl, opt, sched)
        if dist.get_rank() == 0:
            print("epoch", e, "loss", l)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
