"""ReduceLROnPlateau driven by what this rank saw."""
# fault: G05
# finding: gradients/replicas-differ
# severity: error
# ranks: 0, 1
# line: sched.step(running / 6)
# steps: 0

import torch
from torch import distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.optim.lr_scheduler import ReduceLROnPlateau


def batches(rank, epoch, n=6):
    g = torch.Generator().manual_seed(epoch * 31 + rank)
    for _ in range(n):
        x = torch.randn(16, 4, generator=g)
        yield x, (x.sum(1, keepdim=True) + 0.5 * torch.randn(16, 1, generator=g))


def train():
    dist.init_process_group(backend="gloo")
    rank = dist.get_rank()
    torch.manual_seed(2)
    net = DDP(nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1)))
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    sched = ReduceLROnPlateau(opt, factor=0.3, patience=0, threshold=0.02)
    for epoch in range(8):
        running = torch.zeros(())
        for x, y in batches(rank, epoch):
            loss = (net(x) - y).abs().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            running += loss.detach()
        sched.step(running / 6)
        print(rank, epoch, opt.param_groups[0]["lr"], flush=True)
    dist.destroy_process_group()


train()
