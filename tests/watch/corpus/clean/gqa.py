"""Grouped query attention, heads divided over the ranks."""
# steps: 30

import argparse
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class ModelArgs:
    dim: int = 48
    n_heads: int = 6
    n_kv_heads: int = 2
    n_layers: int = 2
    vocab: int = 32
    max_seq: int = 12


class CopyToGroup(torch.autograd.Function):
    """identity forward, all-reduce backward"""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        g = g.contiguous()
        dist.all_reduce(g)
        return g


class ReduceFromGroup(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.contiguous().clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g


def shard(t, dim):
    return nn.Parameter(t.chunk(dist.get_world_size(), dim)[dist.get_rank()].clone())


class GQA(nn.Module):
    def __init__(self, a: ModelArgs):
        super().__init__()
        tp = dist.get_world_size()
        self.hd = a.dim // a.n_heads
        self.q_heads = a.n_heads // tp
        self.kv_heads = a.n_kv_heads // tp
        self.rep = self.q_heads // self.kv_heads
        std = a.dim**-0.5
        self.wq = shard(torch.randn(a.n_heads * self.hd, a.dim) * std, 0)
        self.wk = shard(torch.randn(a.n_kv_heads * self.hd, a.dim) * std, 0)
        self.wv = shard(torch.randn(a.n_kv_heads * self.hd, a.dim) * std, 0)
        self.wo = shard(torch.randn(a.dim, a.n_heads * self.hd) * std, 1)

    def forward(self, x):
        b, t, _ = x.shape
        x = CopyToGroup.apply(x)
        q = F.linear(x, self.wq).view(b, t, self.q_heads, self.hd).transpose(1, 2)
        k = F.linear(x, self.wk).view(b, t, self.kv_heads, self.hd).transpose(1, 2)
        v = F.linear(x, self.wv).view(b, t, self.kv_heads, self.hd).transpose(1, 2)
        k, v = k.repeat_interleave(self.rep, 1), v.repeat_interleave(self.rep, 1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = F.linear(y.transpose(1, 2).reshape(b, t, -1), self.wo)
        return ReduceFromGroup.apply(y)


class Layer(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(a.dim), nn.LayerNorm(a.dim)
        self.attn = GQA(a)
        self.fc = nn.Linear(a.dim, a.dim)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + F.relu(self.fc(self.norm2(x)))


class LM(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.emb = nn.Embedding(a.vocab, a.dim)
        self.layers = nn.Sequential(*[Layer(a) for _ in range(a.n_layers)])
        self.out = nn.Linear(a.dim, a.vocab)

    def forward(self, ids):
        return self.out(self.layers(self.emb(ids)))


def main():
    cli = argparse.ArgumentParser()
    cli.add_argument("--steps", type=int, default=30)
    cli.add_argument("--lr", type=float, default=1e-3)
    opt_args = cli.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(5)
    args = ModelArgs()
    model = LM(args)
    optimizer = torch.optim.Adam(model.parameters(), lr=opt_args.lr)
    stream = torch.Generator().manual_seed(6)
    for step in range(opt_args.steps):
        ids = torch.randint(0, args.vocab, (4, args.max_seq), generator=stream)
        loss = F.cross_entropy(model(ids).flatten(0, 1), ids.roll(1, 1).flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0 and dist.get_rank() == 0:
            print(f"{step} {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
