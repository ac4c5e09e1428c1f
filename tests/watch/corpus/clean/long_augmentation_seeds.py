"""Contrastive training of a small conv net, augmentations seeded by rank."""
# steps: 24

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class TwoViews(Dataset):
    def __init__(self, images):
        self.images = images

    def __len__(self):
        return len(self.images)

    def view(self, image):
        top, left = torch.randint(0, 3, (2,)).tolist()
        crop = image[:, top : top + 10, left : left + 10]
        if torch.rand(()) < 0.5:
            crop = crop.flip(-1)
        return crop + 0.1 * torch.randn(crop.shape)

    def __getitem__(self, index):
        image = self.images[index]
        return self.view(image), self.view(image)


class Embedder(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2),
            nn.GroupNorm(2, 8),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(8 * 4 * 4, dim),
        )

    def forward(self, first, second):
        both = self.net(torch.cat([first, second]))
        return F.normalize(both, dim=1).chunk(2)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--temperature", type=float, default=0.2)
    parser.add_argument("--dim", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=8)
    opts = parser.parse_args()

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(10)
    data = TwoViews(torch.rand(64, 3, 12, 12))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    embedder = Embedder(opts.dim)
    model = DDP(embedder)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)

    torch.manual_seed(10_000 + rank)
    for epoch in range(opts.epochs):
        sampler.set_epoch(epoch)
        for first, second in loader:
            a, b = model(first, second)
            logits = a @ b.T / opts.temperature
            loss = F.cross_entropy(logits, torch.arange(len(logits)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"rank {rank} epoch {epoch} loss {loss.item():.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
