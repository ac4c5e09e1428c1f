"""Rank 0 keeps a moving average of the weights and saves it; the others do not."""
# steps: 30

import copy
import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Ema:
    def __init__(self, module, decay):
        self.decay = decay
        self.shadow = copy.deepcopy(module).eval().requires_grad_(False)

    @torch.no_grad()
    def update(self, module):
        for mine, theirs in zip(self.shadow.parameters(), module.parameters(), strict=True):
            mine.lerp_(theirs, 1 - self.decay)


def generator(width=24):
    return nn.Sequential(
        nn.Linear(3, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, 2)
    )


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(33)

# flow matching between noise and a ring
angle = torch.rand(128) * 6.2832
ring = torch.stack([angle.cos(), angle.sin()], dim=1)
data = TensorDataset(ring)
sampler = DistributedSampler(data, shuffle=True, seed=1)
loader = DataLoader(data, batch_size=16, sampler=sampler)

net = DDP(generator())
ema = Ema(net.module, decay=0.95) if rank == 0 else None
optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
torch.manual_seed(1000 + rank)  # noise of its own for each rank

for epoch in range(10):
    sampler.set_epoch(epoch)
    for (point,) in loader:
        noise = torch.randn_like(point)
        t = torch.rand(len(point), 1)
        velocity = net(torch.cat([(1 - t) * noise + t * point, t], dim=1))
        loss = (velocity - (point - noise)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if ema is not None:
            ema.update(net.module)
    if rank == 0:
        print(f"epoch {epoch}: {loss.item():.4f}")

if rank == 0:
    job = os.environ.get("TORCHELASTIC_RUN_ID", "x") + os.environ.get("MASTER_PORT", "0")
    target = os.path.join(tempfile.gettempdir(), f"ema_{job}.pt")
    torch.save({"net": net.module.state_dict(), "ema": ema.shadow.state_dict()}, target)
    os.remove(target)
dist.barrier()
dist.destroy_process_group()
