"""sequence parallel regions by hand: LayerNorm and dropout work on a slice of the sequence"""
# steps: 0

import torch
import torch.distributed as dist
import torch.nn as nn


def _gather_seq(x):
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, x.contiguous())
    return torch.cat(parts, 1)


def _scatter_sum(x):
    x = x.contiguous().clone()
    dist.all_reduce(x)
    return x.chunk(dist.get_world_size(), 1)[dist.get_rank()].contiguous()


class AllGatherSeq(torch.autograd.Function):
    forward = staticmethod(lambda ctx, x: _gather_seq(x))
    backward = staticmethod(lambda ctx, g: _scatter_sum(g))


class ReduceScatterSeq(torch.autograd.Function):
    forward = staticmethod(lambda ctx, x: _scatter_sum(x))
    backward = staticmethod(lambda ctx, g: _gather_seq(g))


class SPLayer(nn.Module):
    def __init__(self, d, tp):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.norm.weight.sequence_parallel = True
        self.norm.bias.sequence_parallel = True
        torch.manual_seed(77 + dist.get_rank())
        self.a = nn.Linear(d, 2 * d // tp, bias=False)
        self.b = nn.Linear(2 * d // tp, d, bias=False)

    def forward(self, x):
        full = AllGatherSeq.apply(self.norm(x))
        return x + ReduceScatterSeq.apply(self.b(torch.relu(self.a(full))))


class Stack(nn.Module):
    def __init__(self, d=24, n=2):
        super().__init__()
        self.layers = nn.ModuleList(SPLayer(d, dist.get_world_size()) for _ in range(n))

    def forward(self, x):
        for l in self.layers:
            x = l(x)
        return x


def allreduce_sp_grads(model):
    for p in model.parameters():
        if getattr(p, "sequence_parallel", False):
            dist.all_reduce(p.grad)


dist.init_process_group("gloo")
rank, tp = dist.get_rank(), dist.get_world_size()
net = Stack()
optim = torch.optim.Adam(net.parameters(), lr=5e-3)
data = torch.Generator().manual_seed(9)
for it in range(18):
    seq = torch.randn(4, 12, 24, generator=data)
    target = seq.roll(1, -1)
    mine, want = seq.chunk(tp, 1)[rank], target.chunk(tp, 1)[rank]
    loss = (net(mine) - want).pow(2).sum() / target.numel()
    optim.zero_grad()
    loss.backward()
    allreduce_sp_grads(net)
    optim.step()
print(rank, net.layers[0].norm.weight[:4].tolist(), flush=True)
dist.destroy_process_group()
