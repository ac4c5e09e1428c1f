"""Two tower MLP with hand written column/row parallel linears (TP = all ranks).
Everything that is not in a parallel layer is replicated."""
# fault: T04
# finding: sharding/replicated-parameter-drifts
# severity: warning
# ranks: any
# steps: 30

import random

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn


class _Reduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        t = t.clone()
        dist.all_reduce(t, op=dist.ReduceOp.SUM)
        return t

    @staticmethod
    def backward(ctx, grad):
        return grad


class _Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        return t.view_as(t)

    @staticmethod
    def backward(ctx, grad):
        grad = grad.contiguous()
        dist.all_reduce(grad)
        return grad


class ColParallel(nn.Linear):
    def __init__(self, n_in, n_out):
        w = dist.get_world_size()
        assert n_out % w == 0
        super().__init__(n_in, n_out // w)
        # same full matrix everywhere, keep our rows
        full = torch.randn(n_out, n_in) / n_in**0.5
        with torch.no_grad():
            self.weight.copy_(full.chunk(w)[dist.get_rank()])
            self.bias.zero_()

    def forward(self, x):
        return super().forward(x)


class RowParallel(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        w = dist.get_world_size()
        full = torch.randn(n_out, n_in) / n_in**0.5
        self.weight = nn.Parameter(full.chunk(w, dim=1)[dist.get_rank()].clone())
        self.bias = nn.Parameter(torch.zeros(n_out))

    def forward(self, x):
        return _Reduce.apply(x @ self.weight.T) + self.bias


class TPMlp(nn.Module):
    def __init__(self, d, hidden):
        super().__init__()
        self.inner = nn.Sequential(ColParallel(d, hidden), nn.GELU(), RowParallel(hidden, d))

    def forward(self, x):
        return x + self.inner(x)


class Recommender(nn.Module):
    def __init__(self, users=50, items=80, d=20):
        super().__init__()
        self.user = nn.Embedding(users, d)
        self.item = nn.Embedding(items, d)
        self.mix = nn.Linear(2 * d, d)
        self.deep = nn.Sequential(TPMlp(d, 4 * d), nn.LayerNorm(d), TPMlp(d, 4 * d))
        self.score = nn.Linear(d, 1)

    def forward(self, u, i):
        h = self.mix(torch.cat([self.user(u), self.item(i)], -1))
        return self.score(self.deep(h)).squeeze(-1)


def seed_everything(s):
    random.seed(s)
    np.random.seed(s)
    torch.manual_seed(s)


def interactions(rng, n=32):
    u = rng.integers(0, 50, n)
    i = rng.integers(0, 80, n)
    label = ((u * 3 + i) % 7 < 3).astype(np.float32)
    return torch.from_numpy(u), torch.from_numpy(i), torch.from_numpy(label)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    seed_everything(31)
    net = Recommender()
    opt = torch.optim.Adagrad(net.parameters(), lr=0.03)
    bce = nn.BCEWithLogitsLoss()
    rng = np.random.default_rng(12)
    for step in range(45):
        u, i, label = interactions(rng)
        loss = bce(net(u, i), label)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 15 == 0:
            print(dist.get_rank(), step, round(loss.item(), 5), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
