"""row-wise sharded embedding: each rank owns half of the rows, initialised to the same constants; dense part in DDP"""
# steps: 0

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


class RowShard(nn.Module):
    def __init__(self, rows, d):
        super().__init__()
        self.n = rows // dist.get_world_size()
        self.weight = nn.Parameter(torch.full((self.n, d), 0.1))

    def forward(self, ids):
        w, r = dist.get_world_size(), dist.get_rank()
        every = [torch.empty_like(ids) for _ in range(w)]
        dist.all_gather(every, ids)
        return Exch.apply(torch.cat([self.pick(e, r) for e in every]), len(ids))

    def pick(self, ids, r):
        m = ids // self.n == r
        return self.weight[(ids - r * self.n).clamp(0, self.n - 1)] * m[:, None]


class Exch(torch.autograd.Function):
    @staticmethod
    def forward(c, x, n):
        o = torch.empty_like(x)
        dist.all_to_all_single(o, x.contiguous())
        return sum(o.split(n))

    @staticmethod
    def backward(c, g):
        o = torch.empty(len(g) * dist.get_world_size(), g.size(1))
        dist.all_to_all_single(o, g.repeat(dist.get_world_size(), 1))
        return o / dist.get_world_size(), None


def main():
    dist.init_process_group("gloo")
    r = dist.get_rank()
    emb = RowShard(40, 8)
    torch.manual_seed(0)
    mlp = DDP(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)))
    oe, om = torch.optim.Adagrad(emb.parameters(), 0.05), torch.optim.Adam(mlp.parameters(), 1e-2)
    g = torch.Generator().manual_seed(r)
    for it in range(20):
        ids = torch.randint(0, 40, (32,), generator=g)
        loss = nn.functional.binary_cross_entropy_with_logits(
            mlp(emb(ids)).squeeze(1), (ids % 3 == 0).float()
        )
        oe.zero_grad()
        om.zero_grad()
        loss.backward()
        oe.step()
        om.step()
    print(r, loss.item(), emb.weight.sum().item(), flush=True)
    dist.destroy_process_group()


main()
