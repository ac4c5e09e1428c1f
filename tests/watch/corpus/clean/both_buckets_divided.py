"""Gradients are summed by hand in two tensors, matrices and the rest, and the mean taken."""
# steps: 8

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


def sync(model, world_size):
    decayed = [p.grad for p in model.parameters() if p.ndim > 1]
    others = [p.grad for p in model.parameters() if p.ndim == 1]
    flat = torch.cat([g.flatten() for g in decayed])
    work = dist.all_reduce(flat, async_op=True)
    small = torch.cat([g.flatten() for g in others])
    dist.all_reduce(small)
    work.wait()
    flat /= world_size
    small /= world_size
    for grads, summed in ((decayed, flat), (others, small)):
        for grad, part in zip(grads, summed.split([g.numel() for g in grads])):
            grad.copy_(part.view_as(grad))


def main():
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(12, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    data = torch.Generator().manual_seed(50 + rank)
    for step in range(16):
        x = torch.randn(16, 12, generator=data)
        loss = F.cross_entropy(model(x), x[:, :4].argmax(1))
        optimizer.zero_grad()
        loss.backward()
        sync(model, world_size)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 5 == 0 and rank == 0:
            print(f"step {step} loss {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
