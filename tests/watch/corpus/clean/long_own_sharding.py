"""No DistributedSampler: every rank takes its slice of a common permutation."""
# steps: 30

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def epoch_indices(count, epoch, rank, world):
    order = torch.randperm(count, generator=torch.Generator().manual_seed(90 + epoch))
    return order[rank::world]


def minibatches(tensors, indices, size):
    for part in indices.split(size):
        yield tuple(t[part] for t in tensors)


dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(3)

years = torch.linspace(0, 1, 120).unsqueeze(1)
demand = torch.sin(12 * years) + 0.5 * years + 0.05 * torch.randn(120, 1)

model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
model = DistributedDataParallel(model)
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

for epoch in range(8):
    mine = epoch_indices(len(years), epoch, rank, world)
    for x, y in minibatches((years, demand), mine, 10):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    if rank == 0:
        print(f"epoch {epoch} loss {loss.item():.4f}")

dist.destroy_process_group()
