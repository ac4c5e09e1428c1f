"""Gradients of fully_shard are clipped by hand, by the norm of this rank's parts alone."""
# finding: gradients/scaled-apart
# severity: warning
# ranks: 0, 1
# line: optimizer.step()
# steps: 0

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard


def clip(parameters, limit):
    squares = sum(each.grad.to_local().square().sum() for each in parameters)
    factor = min(1.0, limit / (squares.sqrt().item() + 1e-6))
    for each in parameters:
        each.grad.mul_(factor)


dist.init_process_group("gloo")
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
torch.manual_seed(dist.get_rank())
for step in range(10):
    inputs = torch.randn(8, 32)
    optimizer.zero_grad()
    nn.functional.mse_loss(model(inputs), inputs).backward()
    clip(list(model.parameters()), 0.05)
    optimizer.step()
dist.destroy_process_group()
