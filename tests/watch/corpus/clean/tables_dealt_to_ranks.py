"""recommender: embedding tables dealt to ranks (very unequal sizes), dense part by DDP, lookups by all_to_all"""
# steps: 0
# writes: files

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

TABLES = [("user", 5000), ("item", 300), ("ad", 50)]


class Lookup(torch.autograd.Function):
    @staticmethod
    def forward(c, x, dims):
        w, r = dist.get_world_size(), dist.get_rank()
        n = x.size(0) // w
        c.dims, c.n, c.d = dims, n, x.size(1)
        out = torch.empty(n * sum(dims))
        dist.all_to_all_single(
            out, x.contiguous().flatten(), [n * d for d in dims], [n * x.size(1)] * w
        )
        return torch.cat([t.view(n, d) for t, d in zip(out.split([n * d for d in dims]), dims)], 1)

    @staticmethod
    def backward(c, g):
        w = dist.get_world_size()
        out = torch.empty(w * c.n * c.d)
        dist.all_to_all_single(
            out,
            torch.cat([t.reshape(-1) for t in g.split(c.dims, 1)]),
            [c.n * c.d] * w,
            [c.n * d for d in c.dims],
        )
        return out.view(w * c.n, c.d) / w, None


class ShardedTables(nn.Module):
    def __init__(self, r, w, d=8):
        super().__init__()
        self.own = [i for i in range(len(TABLES)) if i % w == r]
        self.dims = [sum(d for i in range(len(TABLES)) if i % w == k) for k in range(w)]
        self.tables = nn.ModuleDict(
            {
                TABLES[i][0]: nn.EmbeddingBag(TABLES[i][1], d, mode="sum", sparse=True)
                for i in self.own
            }
        )

    def forward(self, ids):
        every = [torch.empty_like(ids) for _ in range(dist.get_world_size())]
        dist.all_gather(every, ids)
        every = torch.cat(every)
        return Lookup.apply(
            torch.cat([self.tables[TABLES[i][0]](every[:, i : i + 1]) for i in self.own], 1),
            self.dims,
        )


def main():
    dist.init_process_group("gloo")
    r, w = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(r)
    tabs = ShardedTables(r, w)
    torch.manual_seed(0)
    dense = DDP(nn.Sequential(nn.Linear(24, 16), nn.ReLU(), nn.Linear(16, 1)))
    so, do = (
        torch.optim.SparseAdam(list(tabs.parameters()), 1e-2),
        torch.optim.Adam(dense.parameters(), 1e-2),
    )
    g = torch.Generator().manual_seed(40 + r)
    for it in range(15):
        ids = torch.stack([torch.randint(0, n, (16,), generator=g) for _, n in TABLES], 1)
        y = ((ids.sum(1) % 2) == 0).float()
        loss = nn.functional.binary_cross_entropy_with_logits(dense(tabs(ids)).squeeze(1), y)
        so.zero_grad()
        do.zero_grad()
        loss.backward()
        so.step()
        do.step()
    torch.save(tabs.state_dict(), f"tables.{r}.pt")
    print(r, loss.item(), flush=True)
    dist.barrier()
    dist.destroy_process_group()


main()
