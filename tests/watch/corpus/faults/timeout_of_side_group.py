"""A hang was noticed half an hour after it began, whatever init_process_group was told."""
# fault: C12
# finding: collectives/timeout-not-inherited
# severity: warning
# ranks: 0, 1
# line: self.group = dist.new_group()
# steps: 12

import copy
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Tracker:
    """Best loss so far, agreed on by all ranks over a group of its own."""

    def __init__(self):
        self.group = dist.new_group()
        self.best = float("inf")
        self.state = None

    def update(self, model, loss):
        mean = loss.detach().clone()
        dist.all_reduce(mean, group=self.group)
        mean /= dist.get_world_size()
        if mean.item() < self.best:
            self.best = mean.item()
            self.state = copy.deepcopy(model.module.state_dict())


class Classifier(nn.Module):
    def __init__(self, classes=5):
        super().__init__()
        self.features = nn.Sequential(nn.Conv1d(3, 12, 5, padding=2), nn.ReLU(), nn.MaxPool1d(4))
        self.head = nn.Linear(12 * 8, classes)

    def forward(self, x):
        return self.head(self.features(x).flatten(1))


def batches(count, rank):
    random = torch.Generator().manual_seed(900 + rank)
    for _ in range(count):
        x = torch.randn(16, 3, 32, generator=random)
        yield x, (x[:, 0].mean(1) > 0).long() + 2 * (x[:, 1].mean(1) > 0).long()


def train():
    # A hang is to be noticed at once, not after half an hour.
    dist.init_process_group("gloo", timeout=timedelta(seconds=90))
    torch.manual_seed(3)
    model = DistributedDataParallel(Classifier())
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    tracker = Tracker()
    for x, y in batches(14, dist.get_rank()):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        tracker.update(model, loss)
    if dist.get_rank() == 0:
        print(f"best loss {tracker.best:.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    train()
