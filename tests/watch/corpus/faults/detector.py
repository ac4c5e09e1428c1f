"""Tiny one-stage detector on synthetic shapes. torchrun --nproc-per-node 2 g01_detector.py"""
# fault: G01
# finding: gradients/unused-parameters
# severity: error
# ranks: 0, 1
# steps: 30
# writes: files

import argparse
import logging
import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

logger = logging.getLogger("detector")


class Shapes(Dataset):
    """images with one bright square; target = (cls, cx, cy)"""

    def __init__(self, n=512):
        g = torch.Generator().manual_seed(7)
        self.xy = torch.randint(4, 28, (n, 2), generator=g)
        self.cls = torch.randint(0, 3, (n,), generator=g)
        self.noise = torch.rand(n, 3, 32, 32, generator=g) * 0.3

    def __len__(self):
        return len(self.cls)

    def __getitem__(self, i):
        img = self.noise[i].clone()
        cx, cy = self.xy[i].tolist()
        img[self.cls[i], max(0, cy - 3) : cy + 3, max(0, cx - 3) : cx + 3] += 1.0
        return img, self.cls[i], self.xy[i].float() / 32.0


def conv_block(cin, cout, stride=1):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride, 1), nn.GroupNorm(4, cout), nn.SiLU())


class Backbone(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.stem = conv_block(3, width, 2)
        self.c3 = conv_block(width, width * 2, 2)
        self.c4 = conv_block(width * 2, width * 4, 2)

    def forward(self, x):
        p2 = self.stem(x)
        p3 = self.c3(p2)
        return p3, self.c4(p3)


class AuxHead(nn.Module):
    """deep supervision on the p3 map"""

    def __init__(self, cin, num_classes):
        super().__init__()
        self.proj = nn.Conv2d(cin, cin, 1)
        self.cls = nn.Linear(cin, num_classes)

    def forward(self, p3):
        return self.cls(F.silu(self.proj(p3)).mean((2, 3)))


class Detector(nn.Module):
    def __init__(self, num_classes=3):
        super().__init__()
        self.backbone = Backbone()
        self.cls_head = nn.Linear(64, num_classes)
        self.box_head = nn.Sequential(nn.Linear(64, 32), nn.SiLU(), nn.Linear(32, 2))
        self.aux = AuxHead(32, num_classes)

    def forward(self, x):
        p3, p4 = self.backbone(x)
        f = p4.mean((2, 3))
        return {"cls": self.cls_head(f), "box": self.box_head(f).sigmoid(), "aux": self.aux(p3)}


class SetCriterion:
    def __init__(self, weights):
        self.weights = weights

    def __call__(self, out, cls, box):
        losses = {
            "loss_cls": F.cross_entropy(out["cls"], cls),
            "loss_box": F.smooth_l1_loss(out["box"], box),
        }
        if "loss_aux" in self.weights:
            losses["loss_aux"] = F.cross_entropy(out["aux"], cls)
        return sum(self.weights[k] * v for k, v in losses.items()), losses


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--lr", type=float, default=1e-3)
    args = p.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)

    model = DDP(Detector())
    criterion = SetCriterion({"loss_cls": 1.0, "loss_box": 5.0})
    optim = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    ds = Shapes()
    sampler = DistributedSampler(ds, shuffle=True)
    loader = DataLoader(ds, batch_size=args.batch_size, sampler=sampler, drop_last=True)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(optim, args.epochs * len(loader))

    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        model.train()
        for it, (img, cls, box) in enumerate(loader):
            total, parts = criterion(model(img), cls, box)
            optim.zero_grad(set_to_none=True)
            total.backward()
            optim.step()
            sched.step()
            if rank == 0 and it % 8 == 0:
                logger.info(
                    "ep %d it %d %s",
                    epoch,
                    it,
                    " ".join(f"{k}={v.item():.3f}" for k, v in parts.items()),
                )
    if rank == 0:
        torch.save(model.module.state_dict(), os.path.join(".", "det.pt"))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
