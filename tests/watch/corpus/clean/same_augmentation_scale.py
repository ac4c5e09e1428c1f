"""Every batch has another size of picture, and the ranks share it: their steps are equally long."""
# steps: 12

import random

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset, default_collate


def resized(samples):
    """One size for the batch, the same on all ranks: random is seeded alike."""
    images, labels = default_collate(samples)
    size = random.choice([8, 10, 12, 14])
    return F.interpolate(images, size=(size, size)), labels


def main():
    dist.init_process_group("gloo")
    random.seed(77)
    torch.manual_seed(0)
    labels = torch.arange(128) % 2
    images = torch.randn(128, 1, 12, 12) * 0.4
    images[labels == 1, :, 3:9, 3:9] += 1
    data = TensorDataset(images, labels)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=8, sampler=sampler, collate_fn=resized)
    net = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 2)
    )
    model = DDP(net)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for image, label in loader:
            loss = F.cross_entropy(model(image), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"rank {dist.get_rank()} epoch {epoch} loss {loss.item():.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
