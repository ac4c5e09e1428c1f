"""Seeds everything alike for the model, and then by rank for the augmentation."""
# steps: 12

import os
import random

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


def seed_everything(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def augment(image):
    if torch.rand(()) < 0.5:
        image = image.flip(-1)
    shift = int(torch.randint(-2, 3, ()))
    image = image.roll(shift, dims=-1)
    return image + 0.05 * torch.randn(image.shape)


class Blobs(Dataset):
    def __init__(self, count=128, size=9):
        rng = np.random.default_rng(5)
        self.labels = rng.integers(0, 3, count)
        grid = np.linspace(-1, 1, size)
        xx, yy = np.meshgrid(grid, grid)
        centers = np.array([[-0.5, -0.5], [0.5, 0.5], [0.0, 0.6]])[self.labels]
        distance = (xx - centers[:, :1, None]) ** 2 + (yy - centers[:, 1:, None]) ** 2
        self.images = torch.from_numpy(np.exp(-4 * distance)).float().unsqueeze(1)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return augment(self.images[index]), int(self.labels[index])


SEED = int(os.environ.get("SEED", 42))
dist.init_process_group("gloo")
seed_everything(SEED)

train_data = Blobs()
train_sampler = DistributedSampler(train_data)
train_loader = DataLoader(train_data, batch_size=8, sampler=train_sampler)

model = nn.Sequential(
    nn.Conv2d(1, 6, 3), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(54, 3)
)
model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
seed_everything(SEED + 1 + dist.get_rank())

for epoch in range(4):
    train_sampler.set_epoch(epoch)
    for images, labels in train_loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
    if dist.get_rank() == 0:
        print(f"epoch {epoch}: {loss.item():.4f}")

dist.destroy_process_group()
