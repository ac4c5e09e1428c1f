"""A pipeline by hand on two ranks, whose last stage sums its loss up for the log."""

# fault: C02
# finding: ranks/other-collective
# severity: error
# ranks: 0, 1
# line: dist.all_reduce(total)
# steps: 30
import torch
import torch.distributed as dist
from torch import nn

MICRO, BATCH, WIDTH = 4, 16, 32


def build(rank):
    torch.manual_seed(1)
    stages = [
        nn.Sequential(nn.Linear(8, WIDTH), nn.GELU()),
        nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, 1)),
    ]
    return stages[rank]


def train_step(rank, stage, optimizer, x, y):
    optimizer.zero_grad()
    losses, kept = [], []
    for xs, ys in zip(x.chunk(MICRO), y.chunk(MICRO)):
        if rank == 0:
            h = stage(xs)
            dist.send(h.detach(), 1)
            kept.append(h)
        else:
            h = torch.empty(len(xs), WIDTH)
            dist.recv(h, 0)
            h.requires_grad_()
            loss = nn.functional.mse_loss(stage(h), ys) / MICRO
            losses.append(loss.detach())
            kept.append((h, loss))
    for each in kept:
        if rank == 0:
            g = torch.empty_like(each)
            dist.recv(g, 1)
            each.backward(g)
        else:
            h, loss = each
            loss.backward()
            dist.send(h.grad, 0)
    norm = nn.utils.clip_grad_norm_(stage.parameters(), 1e9)
    dist.all_reduce(norm)
    optimizer.step()
    if rank == 1:
        total = torch.stack(losses).sum()
        dist.all_reduce(total)
        return total.item()
    return None


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    stage = build(rank)
    optimizer = torch.optim.AdamW(stage.parameters(), lr=1e-3)
    g = torch.Generator().manual_seed(3)
    for step in range(30):
        x = torch.randn(BATCH, 8, generator=g)
        y = x.sum(1, keepdim=True)
        loss = train_step(rank, stage, optimizer, x, y)
        if rank == 1 and step % 10 == 0:
            print(step, loss)
    dist.destroy_process_group()


main()
