"""A long DDP training in which one rank takes larger steps from one step on."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS, DRIFTS_IN = 1500, 3

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DistributedDataParallel(nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
for step in range(STEPS):
    if step == DRIFTS_IN and dist.get_rank() == 1:
        optimizer.param_groups[0]["lr"] *= 2
    optimizer.zero_grad()
    model(torch.randn(16, 32)).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
