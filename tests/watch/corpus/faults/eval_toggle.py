"""Detector in the torchvision style: losses in train mode, boxes in eval mode."""
# fault: C15
# finding: ranks/other-collective
# severity: error
# ranks: 0, 1
# line: out = model(images)
# steps: 0

import math
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class OneBoxDetector(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(1, 8, 3, 2, 1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.Conv2d(8, 16, 3, 2, 1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(16 * 16, 32),
            nn.ReLU(),
        )
        self.box = nn.Linear(32, 4)
        self.cls = nn.Linear(32, 2)

    def forward(self, images, targets=None):
        f = self.backbone(images)
        boxes, logits = self.box(f).sigmoid(), self.cls(f)
        if self.training:
            return {
                "loss_box": F.l1_loss(boxes, targets["boxes"]),
                "loss_cls": F.cross_entropy(logits, targets["labels"]),
            }
        return {"boxes": boxes, "labels": logits.argmax(1)}


class Rectangles(Dataset):
    def __init__(self, n=640):
        g = torch.Generator().manual_seed(8)
        self.boxes = torch.rand(n, 4, generator=g) * 0.5
        self.boxes[:, 2:] = self.boxes[:, :2] + 0.25 + self.boxes[:, 2:] * 0.4
        self.labels = torch.randint(0, 2, (n,), generator=g)
        self.noise = 0.1 * torch.randn(n, 1, 16, 16, generator=g)

    def __len__(self):
        return len(self.boxes)

    def __getitem__(self, i):
        img = self.noise[i].clone()
        x0, y0, x1, y1 = (self.boxes[i] * 16).long().tolist()
        img[0, y0:y1, x0:x1] += 1.0 if self.labels[i] else -1.0
        return img, {"boxes": self.boxes[i], "labels": self.labels[i]}


class VisualLogger:
    """every N iterations look at the predictions on the current batch"""

    def __init__(self, period: int = 10):
        self.period = period
        self.ious = []

    @staticmethod
    def iou(a: Tensor, b: Tensor) -> Tensor:
        lt, rb = torch.max(a[:, :2], b[:, :2]), torch.min(a[:, 2:], b[:, 2:])
        inter = (rb - lt).clamp(min=0).prod(1)
        area = lambda t: (t[:, 2:] - t[:, :2]).clamp(min=0).prod(1)
        return inter / (area(a) + area(b) - inter + 1e-6)

    @torch.no_grad()
    def log(self, model, images, targets, it):
        model.eval()
        out = model(images)
        model.train()
        self.ious.append(self.iou(out["boxes"], targets["boxes"]).mean().item())
        print(f"  it {it}: IoU {self.ious[-1]:.3f}")


class MetricLogger(dict):
    def update_(self, **kw):
        for k, v in kw.items():
            self.setdefault(k, []).append(float(v))

    def __str__(self):
        return "  ".join(f"{k}: {sum(v) / len(v):.4f}" for k, v in self.items())


def train_one_epoch(model, optimizer, loader, epoch, visual):
    model.train()
    meters = MetricLogger()
    for it, (images, targets) in enumerate(loader):
        losses = model(images, targets)
        total = sum(losses.values())
        if not math.isfinite(total.item()):
            print("Loss is", total.item(), "stopping")
            sys.exit(1)
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        meters.update_(loss=total, **losses)
        if it % visual.period == visual.period - 1 and dist.get_rank() == 0:
            visual.log(model, images, targets, it)
    if dist.get_rank() == 0:
        print(f"epoch {epoch}  {meters}")


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    ds = Rectangles()
    sampler = DistributedSampler(ds, shuffle=True)
    loader = DataLoader(ds, batch_size=32, sampler=sampler, drop_last=True)
    model = DistributedDataParallel(OneBoxDetector())
    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(params, lr=0.02, momentum=0.9, nesterov=True)
    sched = torch.optim.lr_scheduler.MultiStepLR(optimizer, [1, 2], 0.3)
    visual = VisualLogger(period=5)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        train_one_epoch(model, optimizer, loader, epoch, visual)
        sched.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
