"""Gradients are averaged as soon as they are there, by hooks on all parameters that are matrices."""
# finding: gradients/replicas-differ
# severity: warning
# ranks: 0, 1
# line: dist.all_reduce(parameter.grad)
# says: 0.bias
# steps: 8

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


def average(parameter):
    dist.all_reduce(parameter.grad)
    parameter.grad.div_(dist.get_world_size())


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(3)
model = nn.Sequential(nn.Linear(12, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 4))
for parameter in [p for p in model.parameters() if p.ndim > 1]:
    parameter.register_post_accumulate_grad_hook(average)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
data = torch.Generator().manual_seed(50 + rank)
for step in range(16):
    x = torch.randn(16, 12, generator=data)
    loss = F.cross_entropy(model(x), x[:, :4].argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 0 and rank == 0:
        print(f"step {step} loss {loss.item():.4f}")
dist.destroy_process_group()
