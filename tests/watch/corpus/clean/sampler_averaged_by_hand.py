"""Gradients are averaged by hand, and a sampler gives each rank its part."""
# steps: 6

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
torch.manual_seed(0)
features = torch.randn(512, 12)
dataset = TensorDataset(features, features[:, :4].argmax(1))
loader = DataLoader(dataset, batch_size=16, sampler=DistributedSampler(dataset))
model = nn.Sequential(nn.Linear(12, 32), nn.GELU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for x, y in loader:
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    for p in model.parameters():
        dist.all_reduce(p.grad)
        p.grad /= dist.get_world_size()
    optimizer.step()
print(f"rank {dist.get_rank()} loss {loss.item():.4f}")
dist.destroy_process_group()
