"""A small classifier, in which all ranks take their time."""
# steps: 0

import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(16, 32)
        self.b = nn.Linear(32, 4)

    def forward(self, x):
        h = self.a(x).relu()
        time.sleep(0.02)
        return self.b(h)


def main():
    dist.init_process_group("gloo")
    r = dist.get_rank()
    torch.manual_seed(0)
    m = DDP(Net())
    opt = torch.optim.Adam(m.parameters(), lr=1e-3)
    g = torch.Generator().manual_seed(r)
    for i in range(40):
        x = torch.randn(8, 16, generator=g)
        y = torch.randint(0, 4, (8,), generator=g)
        loss = nn.functional.cross_entropy(m(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    dist.destroy_process_group()


main()
