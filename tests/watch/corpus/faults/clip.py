"""CLIP in small: two towers, negatives from all ranks."""
# fault: G12
# finding: gradients/gathered-without-gradient
# severity: warning
# ranks: 0, 1
# steps: 30

import argparse

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Pairs(Dataset):
    def __init__(self, n=640):
        rng = np.random.default_rng(0)
        self.z = rng.normal(size=(n, 6)).astype("float32")
        self.A = rng.normal(size=(6, 3 * 8 * 8)).astype("float32")
        self.B = rng.normal(size=(6, 12)).astype("float32")

    def __len__(self):
        return len(self.z)

    def __getitem__(self, i):
        img = np.tanh(self.z[i] @ self.A).reshape(3, 8, 8)
        txt = np.clip((self.z[i] @ self.B) * 4 + 16, 0, 31).astype("int64")
        return torch.from_numpy(img), torch.from_numpy(txt)


class ImageTower(nn.Module):
    def __init__(self, e):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 16, 3, 1, 1),
            nn.GELU(),
            nn.Conv2d(16, 16, 3, 2, 1),
            nn.GELU(),
            nn.Flatten(),
            nn.Linear(256, e),
        )

    def forward(self, x):
        return self.net(x)


class TextTower(nn.Module):
    def __init__(self, e):
        super().__init__()
        self.emb = nn.Embedding(32, 24)
        self.lstm = nn.LSTM(24, 32, batch_first=True)
        self.proj = nn.Linear(32, e)

    def forward(self, t):
        return self.proj(self.lstm(self.emb(t))[0].mean(1))


class CLIP(nn.Module):
    def __init__(self, e=32):
        super().__init__()
        self.visual, self.text = ImageTower(e), TextTower(e)
        self.logit_scale = nn.Parameter(torch.tensor(np.log(1 / 0.07), dtype=torch.float32))

    def forward(self, img, txt):
        return (
            F.normalize(self.visual(img), dim=-1),
            F.normalize(self.text(txt), dim=-1),
            self.logit_scale.exp(),
        )


def gather_features(img, txt, world_size):
    all_img = [torch.zeros_like(img) for _ in range(world_size)]
    all_txt = [torch.zeros_like(txt) for _ in range(world_size)]
    dist.all_gather(all_img, img)
    dist.all_gather(all_txt, txt)
    return torch.cat(all_img), torch.cat(all_txt)


class ClipLoss(nn.Module):
    def __init__(self, rank, world_size):
        super().__init__()
        self.rank, self.world_size = rank, world_size

    def forward(self, img, txt, scale):
        all_img, all_txt = gather_features(img, txt, self.world_size)
        li = scale * img @ all_txt.T
        lt = scale * txt @ all_img.T
        labels = torch.arange(len(img)) + self.rank * len(img)
        return (F.cross_entropy(li, labels) + F.cross_entropy(lt, labels)) / 2


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--batch-size", type=int, default=16)
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--warmup", type=int, default=5)
    a = ap.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, ws = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    data = Pairs()
    sampler = DistributedSampler(data, shuffle=True)
    dl = DataLoader(data, a.batch_size, sampler=sampler, drop_last=True)
    model = DDP(CLIP())
    decay = [p for n, p in model.named_parameters() if p.ndim >= 2]
    rest = [p for n, p in model.named_parameters() if p.ndim < 2]
    opt = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}], lr=a.lr
    )
    loss_fn = ClipLoss(rank, ws)
    step = 0
    for epoch in range(a.epochs):
        sampler.set_epoch(epoch)
        for img, txt in dl:
            for g in opt.param_groups:
                g["lr"] = a.lr * min(1.0, (step + 1) / a.warmup)
            fi, ft, s = model(img, txt)
            loss = loss_fn(fi, ft, s)
            opt.zero_grad()
            loss.backward()
            opt.step()
            with torch.no_grad():
                model.module.logit_scale.clamp_(0, np.log(100))
            if step % 10 == 0 and rank == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f} scale {s.item():.2f}")
            step += 1
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
