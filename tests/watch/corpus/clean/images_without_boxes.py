"""A tiny one-stage detector. Some images have no box at all."""
# steps: 0

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Boxes(Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        img = torch.rand(1, 16, 16, generator=g)
        k = 0 if i % 5 < 2 else int(torch.randint(1, 4, (1,), generator=g))
        return img, {
            "boxes": torch.rand(k, 4, generator=g),
            "labels": torch.randint(0, 3, (k,), generator=g),
            "image_id": i,
        }


def collate(batch):
    imgs, tgts = zip(*batch)
    return torch.stack(imgs), list(tgts)


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 16, 3, 2, 1), nn.ReLU()
        )
        self.cls = nn.Conv2d(16, 3, 1)
        self.reg = nn.Conv2d(16, 4, 1)

    def forward(self, images, targets):
        f = self.body(images)
        cls, reg = self.cls(f).flatten(2), self.reg(f).flatten(2)
        lc, lr, n = cls.sum() * 0, reg.sum() * 0, 0
        for b, t in enumerate(targets):
            for box, label in zip(t["boxes"], t["labels"]):
                cell = min(int(box[0] * 4), 3) * 4 + min(int(box[1] * 4), 3)
                lc = lc + nn.functional.cross_entropy(cls[b, :, cell][None], label[None])
                lr = lr + (reg[b, :, cell] - box).abs().sum()
                n += 1
        return {"loss_cls": lc / 4, "loss_box": lr / 4}, n


def train_one_epoch(model, opt, loader, epoch):
    model.train()
    for images, targets in loader:
        losses, _npos = model(images, targets)
        loss = sum(losses.values())
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=3)
    args = ap.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(Detector())
    ds = Boxes(80)
    sampler = DistributedSampler(ds, seed=5)
    loader = DataLoader(ds, batch_size=2, sampler=sampler, collate_fn=collate)
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for e in range(args.epochs):
        sampler.set_epoch(e)
        l = train_one_epoch(model, opt, loader, e)
        print(f"rank {dist.get_rank()} epoch {e}: {l:.3f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
