"""Two views of each digit are pulled together: a siamese network in one long script."""
# steps: 30

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class ScaledProjection(nn.Module):
    """Projects, and divides by a running estimate of each feature's size."""

    def __init__(self, width, out, keep=0.9):
        super().__init__()
        self.project = nn.Linear(width, out)
        self.keep = keep
        self.register_buffer("size", torch.ones(out))

    def forward(self, x):
        h = self.project(x)
        if self.training:
            now = h.detach().abs().mean(dim=0)
            self.size = self.keep * self.size + (1 - self.keep) * now
        return h / self.size


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 48), nn.GELU(), nn.LayerNorm(48))
        self.head = ScaledProjection(48, 16)

    def forward(self, x):
        return self.head(self.body(x))


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(7)
prototypes = torch.randn(10, 64)
labels = torch.arange(640) % 10
pixels = prototypes[labels] + 0.3 * torch.randn(640, 64)
dataset = TensorDataset(pixels, labels)
sampler = DistributedSampler(dataset, seed=3)
loader = DataLoader(dataset, batch_size=16, sampler=sampler, drop_last=True)

model = DDP(Siamese())
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
noise = torch.Generator().manual_seed(100 + rank)

for epoch in range(2):
    sampler.set_epoch(epoch)
    for images, _ in loader:
        jitter = torch.randn(images.shape, generator=noise)
        optimizer.zero_grad()
        both = model(torch.cat([images, images + 0.2 * jitter]))
        one, other = both.chunk(2)
        similarity = F.normalize(one, dim=1) @ F.normalize(other, dim=1).T
        loss = F.cross_entropy(similarity / 0.2, torch.arange(len(images)))
        loss.backward()
        optimizer.step()
    if rank == 0:
        print(f"epoch {epoch} loss {loss.item():.3f}")
dist.destroy_process_group()
