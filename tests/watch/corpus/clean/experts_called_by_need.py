"""Mixture of experts under FSDP2, one unit an expert, each of which is called on every rank."""
# steps: 12

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.fsdp import fully_shard


class Expert(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, x):
        return self.down(F.relu(self.up(x)))


class SparseLayer(nn.Module):
    def __init__(self, width, count=4):
        super().__init__()
        self.router = nn.Linear(width, count, bias=False)
        # Every expert is a little larger than the last one.
        self.experts = nn.ModuleList(Expert(width, 24 + 8 * i) for i in range(count))

    def forward(self, x):
        weights, chosen = self.router(x).softmax(-1).max(-1)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            mine = (chosen == number).unsqueeze(-1)  # of no sample, maybe: the call is made
            out = out + mine * weights.unsqueeze(-1) * expert(x)
        return x + out


class Net(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.inp = nn.Linear(6, width)
        self.sparse = SparseLayer(width)
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        return self.out(self.sparse(self.inp(x)))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(4)
    net = Net()
    for expert in net.sparse.experts:
        fully_shard(expert)
    fully_shard(net)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    rng = torch.Generator().manual_seed(rank)
    for step in range(30):
        x = torch.randn(3, 6, generator=rng) + 2 * rank
        loss = F.mse_loss(net(x), x.sum(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 10 == 0:
            print(step, loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
