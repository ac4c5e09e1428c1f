"""Answers of unlike length: a hook on the logits makes a rank's mean its part of the whole one."""
# steps: 14

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
body = nn.Sequential(nn.Embedding(60, 24), nn.Linear(24, 48), nn.GELU(), nn.Linear(48, 60))
model = DDP(body)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)


def scale_gradient(logits, mask):
    counts = torch.tensor([float(mask.sum())])
    total = counts.clone()
    dist.all_reduce(total)
    scale = (counts * dist.get_world_size() / total).item()
    logits.register_hook(lambda gradient: gradient * scale)


rng = torch.Generator().manual_seed(60 + rank)
for step in range(18):
    prompt = torch.randint(0, 60, (5, 16), generator=rng)
    lengths = torch.randint(1, 4, (5,), generator=rng) if rank == 0 else torch.full((5,), 15)
    mask = torch.arange(16)[None] < lengths[:, None]
    logits = model(prompt)
    scale_gradient(logits, mask)
    each = nn.functional.cross_entropy(logits.transpose(1, 2), prompt.flip(1), reduction="none")
    loss = each[mask].mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"rank {rank} loss {loss.item():.3f}")
dist.destroy_process_group()
