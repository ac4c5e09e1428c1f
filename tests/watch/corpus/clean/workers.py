"""Contrastive pretraining (SimCLR style), two noisy views an image."""
# steps: 30

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class RandomCropFlip:
    def __init__(self, size):
        self.size = size

    def __call__(self, img):
        _, h, w = img.shape
        top = torch.randint(0, h - self.size + 1, (1,)).item()
        left = torch.randint(0, w - self.size + 1, (1,)).item()
        img = img[:, top : top + self.size, left : left + self.size]
        if torch.rand(1).item() < 0.5:
            img = img.flip(-1)
        return img


class Jitter:
    def __init__(self, strength=0.4):
        self.s = strength

    def __call__(self, img):
        b = 1 + (torch.rand(img.shape[0], 1, 1) * 2 - 1) * self.s
        return (img * b).clamp(0, 1)


class Compose:
    def __init__(self, *ts):
        self.ts = ts

    def __call__(self, x):
        for t in self.ts:
            x = t(x)
        return x


class TwoViews(Dataset):
    def __init__(self, images, transform):
        self.images, self.transform = images, transform

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        img = self.images[i]
        return self.transform(img), self.transform(img)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1),
            nn.GroupNorm(2, 8),
            nn.ReLU(),
            nn.Conv2d(8, 16, 3, stride=2, padding=1),
            nn.GroupNorm(2, 16),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        self.proj = nn.Linear(16, 16)

    def forward(self, a, b):
        z = self.proj(self.conv(torch.cat([a, b])))
        return F.normalize(z, dim=1).chunk(2)


def nt_xent(za, zb, t=0.5):
    z = torch.cat([za, zb])
    sim = z @ z.t() / t
    sim.fill_diagonal_(-1e9)
    n = len(za)
    target = torch.cat([torch.arange(n, 2 * n), torch.arange(n)])
    return F.cross_entropy(sim, target)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    torch.manual_seed(42 + rank)

    images = torch.rand(192, 3, 20, 20, generator=torch.Generator().manual_seed(8))
    ds = TwoViews(images, Compose(RandomCropFlip(16), Jitter()))
    sampler = DistributedSampler(ds, world, rank, shuffle=True)
    loader = DataLoader(ds, batch_size=12, sampler=sampler, num_workers=2, drop_last=True)

    model = DDP(Encoder())
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    warmup = torch.optim.lr_scheduler.LinearLR(opt, 0.1, total_iters=8)

    for epoch in range(3):
        sampler.set_epoch(epoch)
        for a, b in loader:
            za, zb = model(a, b)
            loss = nt_xent(za, zb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            warmup.step()
        if rank == 0:
            print("epoch", epoch, "loss", round(loss.item(), 4), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
