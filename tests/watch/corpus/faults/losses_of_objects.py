"""Boxes in images: the losses of all objects are stacked, and their mean is taken."""
# finding: gradients/loss-denominators-differ
# severity: warning
# ranks: 0, 1
# line: return torch.stack(losses).mean()
# steps: 20

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset


class Scenes(Dataset):
    """A camera over a motorway at rush hour, or one over a country lane."""

    def __init__(self, camera, n=80):
        rng = torch.Generator().manual_seed(camera)
        fewest, most = ((1, 3), (9, 16))[camera % 2]
        self.counts = torch.randint(fewest, most, (n,), generator=rng).tolist()
        self.images = torch.randn(n, 3, 16, 16, generator=rng)
        self.boxes = [torch.rand(count, 4, generator=rng) for count in self.counts]
        self.cells = [torch.randint(0, 16, (count,), generator=rng) for count in self.counts]

    def __len__(self):
        return len(self.counts)

    def __getitem__(self, i):
        return self.images[i], self.boxes[i], self.cells[i]


def collate(samples):
    images, boxes, cells = zip(*samples, strict=True)
    return torch.stack(images), boxes, cells


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(3, 16, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1),
            nn.ReLU(),
        )
        self.box = nn.Conv2d(32, 4, 1)

    def forward(self, images):
        return self.box(self.backbone(images)).flatten(2).transpose(1, 2)  # N, cells, 4


def box_loss(predicted, boxes, cells):
    losses = []
    for own, truth, where in zip(predicted, boxes, cells, strict=True):
        for cell, box in zip(where.tolist(), truth, strict=True):
            losses.append(F.smooth_l1_loss(own[cell].sigmoid(), box, reduction="sum"))
    return torch.stack(losses).mean()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(11)
    model = DDP(Detector())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    loader = DataLoader(Scenes(rank), batch_size=4, collate_fn=collate)
    for epoch in range(2):
        for images, boxes, cells in loader:
            loss = box_loss(model(images), boxes, cells)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"camera {rank} epoch {epoch} loss {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
