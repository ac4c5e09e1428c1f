"""Rank 0 collects what is known of the masks, which stay where they are."""
# steps: 5

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()

torch.manual_seed(1)
net = DDP(
    torch.nn.Sequential(
        torch.nn.Conv2d(1, 6, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(6, 1, 1)
    )
)
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
rng = torch.Generator().manual_seed(100 + rank)

for epoch in range(3):
    for _ in range(4):
        image = torch.randn(4, 1, 16, 16, generator=rng)
        mask = (image > 0.2).float()
        loss = F.binary_cross_entropy_with_logits(net(image), mask)
        opt.zero_grad()
        loss.backward()
        opt.step()

    with torch.no_grad():
        test = torch.randn(8, 1, 16, 16, generator=rng)
        small = torch.sigmoid(net.module(test))
        full = F.interpolate(small, size=(1024, 1024)).squeeze(1)
    masks = np.concatenate([full.numpy(), 1 - full.numpy()])
    paths = [f"/data/scan_{rank}_{i}.png" for i in range(len(masks))]
    shares = dict(zip(paths, masks.mean(axis=(1, 2)).tolist(), strict=True))
    everything = [None] * world
    dist.gather_object(shares, everything if rank == 0 else None)
    if rank == 0:
        covered = np.mean([share for part in everything for share in part.values()])
        print(f"epoch {epoch} loss {loss.item():.3f} covered {covered:.3f}")

dist.destroy_process_group()
