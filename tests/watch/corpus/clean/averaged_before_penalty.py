"""Gradients are averaged by hand; then a penalty, the same on all ranks, adds its own."""
# steps: 12

import os

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.manual_seed(11)
net = nn.Sequential(nn.Linear(16, 64), nn.SiLU(), nn.Linear(64, 3))
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
centers = torch.randn(3, 16)
rng = torch.Generator().manual_seed(900 + rank)

for step in range(30):
    y = torch.randint(3, (24,), generator=rng)
    x = centers[y] + torch.randn(24, 16, generator=rng)
    opt.zero_grad()
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    for p in net.parameters():
        dist.all_reduce(p.grad)
        p.grad /= world_size
    # of the weights alone: no need to send it around
    penalty = 1e-3 * sum(p.abs().sum() for p in net.parameters())
    penalty.backward()
    opt.step()
    if rank == 0 and step % 10 == 0:
        print(f"step {step}: loss {loss.item():.3f}, penalty {penalty.item():.3f}")
dist.destroy_process_group()
