"""A NaN on any rank makes all ranks leave the step out (they ask each other first)."""
# steps: 0

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def make_batch(step, rank):
    g = torch.Generator().manual_seed(step * 2 + rank)
    x = torch.randn(16, 5, generator=g)
    if step % 11 == 5 and rank == 1:
        x[3, 2] = float("nan")  # broken samples do occur in this data
    return x, x.nan_to_num().sum(1, keepdim=True)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    net = DDP(nn.Sequential(nn.Linear(5, 16), nn.SiLU(), nn.Linear(16, 1)))
    opt = torch.optim.Adam(net.parameters(), 1e-2)
    skipped = 0
    for step in range(40):
        x, y = make_batch(step, rank)
        loss = nn.functional.mse_loss(net(x), y)
        bad = (~torch.isfinite(loss.detach())).float()
        dist.all_reduce(bad, op=dist.ReduceOp.MAX)
        loss.backward()
        if bad.item():
            skipped += 1
            opt.zero_grad()
            continue
        opt.step()
        opt.zero_grad()
    print(rank, skipped, loss.item())
    dist.destroy_process_group()


main()
