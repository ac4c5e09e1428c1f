"""Segmentation with autocast, GradScaler, accumulation and clipping."""
# fault: G11
# finding: gradients/step-raised
# severity: error
# ranks: 0, 1
# line: scaler.unscale_(opt)
# steps: 30

import torch
import torch.distributed as dist
from torch import nn
from torch.amp import GradScaler, autocast
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class UNetish(nn.Module):
    def __init__(self, w=12):
        super().__init__()
        self.d1 = nn.Sequential(nn.Conv2d(1, w, 3, 1, 1), nn.ReLU())
        self.d2 = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(w, 2 * w, 3, 1, 1), nn.ReLU())
        self.up = nn.ConvTranspose2d(2 * w, w, 2, 2)
        self.head = nn.Conv2d(2 * w, 1, 1)

    def forward(self, x):
        a = self.d1(x)
        return self.head(torch.cat([a, self.up(self.d2(a))], 1))


class Discs(Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        cx, cy, r = (
            torch.rand(3, generator=g) * torch.tensor([24.0, 24.0, 6.0])
            + torch.tensor([4.0, 4.0, 2.0])
        ).tolist()
        yy, xx = torch.meshgrid(torch.arange(32.0), torch.arange(32.0), indexing="ij")
        m = ((yy - cy) ** 2 + (xx - cx) ** 2 < r * r).float()[None]
        return m + 0.4 * torch.randn(1, 32, 32, generator=g), m


def dice(logits, m):
    p = logits.float().sigmoid()
    num = 2 * (p * m).sum((1, 2, 3)) + 1
    return 1 - (num / (p.sum((1, 2, 3)) + m.sum((1, 2, 3)) + 1)).mean()


def train_one_epoch(model, loader, opt, scaler, accum, epoch):
    model.train()
    n_full = len(loader) - len(loader) % accum
    for i, (x, m) in enumerate(loader):
        if i == n_full:
            break
        stepping = (i + 1) % accum == 0
        with autocast("cpu", dtype=torch.bfloat16):
            out = model(x)
            loss = nn.functional.binary_cross_entropy_with_logits(out.float(), m) + dice(out, m)
        scaler.scale(loss / accum).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if stepping:
            scaler.step(opt)
            scaler.update()
            opt.zero_grad()
        if i % 10 == 0 and dist.get_rank() == 0:
            print(f"[{epoch}:{i}] loss={loss.item():.3f} scale={scaler.get_scale():.0f}")


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(5)
    ds = Discs()
    loader = DataLoader(ds, 10, sampler=DistributedSampler(ds), drop_last=True)
    model = nn.parallel.DistributedDataParallel(UNetish())
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    scaler = GradScaler("cpu", init_scale=1024.0)
    for epoch in range(3):
        loader.sampler.set_epoch(epoch)
        train_one_epoch(model, loader, opt, scaler, accum=2, epoch=epoch)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
