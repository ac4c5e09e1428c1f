"""Recommender: sparse EmbeddingBags + dense tower, no DDP: dense and sparse optimizers, own reduction."""
# steps: 0

import torch
import torch.distributed as dist
from torch import nn


class TwoTower(nn.Module):
    def __init__(self, users, items, d):
        super().__init__()
        self.user = nn.EmbeddingBag(users, d, sparse=True, mode="mean")
        self.item = nn.Embedding(items, d, sparse=True)
        self.top = nn.Sequential(nn.Linear(2 * d, 32), nn.ReLU(), nn.Linear(32, 1))

    def dense_parameters(self):
        return self.top.parameters()

    def sparse_parameters(self):
        return [self.user.weight, self.item.weight]

    def forward(self, hist, offsets, item):
        return self.top(torch.cat([self.user(hist, offsets), self.item(item)], 1)).squeeze(1)


class Reducer:
    def __init__(self, params):
        self.params = list(params)

    def __call__(self):
        w = dist.get_world_size()
        handles = []
        for p in self.params:
            if p.grad.is_sparse:
                p.grad = p.grad.to_dense()
            handles.append(dist.all_reduce(p.grad, async_op=True))
        for h in handles:
            h.wait()
        for p in self.params:
            if p.grad is not None and not p.grad.is_sparse:
                p.grad /= w
        for p in self.params:
            if p.dim() == 2 and p.shape[0] > 64:
                p.grad = p.grad.to_sparse(1)


def clicks(rank, step):
    g = torch.Generator().manual_seed(1000 * rank + step)
    n = 16
    lens = torch.randint(1, 6, (n,), generator=g)
    hist = torch.randint(0, 500, (int(lens.sum()),), generator=g)
    off = torch.cat([torch.zeros(1, dtype=torch.long), lens.cumsum(0)[:-1]])
    item = torch.randint(0, 300, (n,), generator=g)
    return hist, off, item, (item % 2).float()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(1)
    m = TwoTower(500, 300, 16)
    dense = torch.optim.Adagrad(m.dense_parameters(), lr=0.02)
    sparse = torch.optim.SparseAdam(m.sparse_parameters(), lr=0.01)
    reduce = Reducer(m.parameters())
    for step in range(30):
        h, o, i, y = clicks(rank, step)
        loss = nn.functional.binary_cross_entropy_with_logits(m(h, o, i), y)
        dense.zero_grad()
        sparse.zero_grad()
        loss.backward()
        reduce()
        dense.step()
        sparse.step()
    print(rank, f"{loss.item():.4f}", m.item.weight.norm().item())
    dist.destroy_process_group()
