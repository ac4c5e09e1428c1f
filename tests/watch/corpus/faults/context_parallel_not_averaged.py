"""context parallel: every rank holds a chunk of the sequence, keys and values are gathered"""
# fault: T04
# finding: gradients/averaged-among-some
# severity: warning
# ranks: 0, 1, 2, 3
# line: dist.all_reduce(p.grad, group=dp_group)
# steps: 0
# processes: 4

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size() // 2, 2), mesh_dim_names=("dp", "cp"))
dp_rank, cp_rank, cp = mesh["dp"].get_local_rank(), mesh["cp"].get_local_rank(), mesh["cp"].size()
cp_group, dp_group = mesh["cp"].get_group(), mesh["dp"].get_group()
WIDTH, LENGTH = 32, 16


class GatherSequence(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        parts = [torch.empty_like(x) for _ in range(cp)]
        dist.all_gather(parts, x.contiguous(), group=cp_group)
        return torch.cat(parts, 1)

    @staticmethod
    def backward(ctx, g):
        g = g.contiguous().clone()
        dist.all_reduce(g, group=cp_group)
        return g.chunk(cp, 1)[cp_rank].contiguous()


class CPAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        k = GatherSequence.apply(self.k(x))
        v = GatherSequence.apply(self.v(x))
        return x + self.out(F.scaled_dot_product_attention(self.q(x), k, v))


def average_gradients(params):
    for p in params:
        dist.all_reduce(p.grad, group=dp_group)
        p.grad.div_(mesh["dp"].size())


torch.manual_seed(2)
net = nn.Sequential(nn.Linear(6, WIDTH), CPAttention(), CPAttention(), nn.Linear(WIDTH, 6))
optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
stream = torch.Generator().manual_seed(dp_rank)
for it in range(16):
    seq = torch.randn(4, LENGTH, 6, generator=stream)
    local = seq.chunk(cp, 1)[cp_rank]
    loss = F.mse_loss(net(local), local.cumsum(-1))
    optimizer.zero_grad()
    loss.backward()
    average_gradients(net.parameters())
    optimizer.step()
print("rank", dist.get_rank(), "weights", sum(p.sum().item() for p in net.parameters()), flush=True)
dist.destroy_process_group()
