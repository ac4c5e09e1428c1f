"""Rank 0 decides when to stop, and tells the others through a small wrapper."""
# steps: 0

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def decided(flag, src, group):
    told = torch.tensor([float(flag)])
    dist.broadcast(told, src=src, group=group)
    return bool(told.item())


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    control = dist.new_group()
    torch.manual_seed(0)
    model = DDP(nn.Linear(6, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    data = torch.Generator().manual_seed(rank)
    for epoch in range(4):
        total = 0.0
        for _ in range(5):
            x = torch.randn(8, 6, generator=data)
            loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        if decided(total < 1e-3, src=0, group=control):
            break
    print(f"rank {rank}: {total:.3f} after {epoch + 1} epochs")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
