"""Tensor parallel MLP stack with sequence parallelism, written by hand after
the Megatron paper. All ranks form one tensor parallel group."""
# steps: 30

import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


# ---- autograd aware communication ------------------------------------------
def _all_gather_seq(x):
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, x.contiguous())
    return torch.cat(parts, dim=1)


def _reduce_scatter_seq(x):
    # gloo: all_reduce, then keep the own slice
    x = x.contiguous().clone()
    dist.all_reduce(x)
    return x.chunk(dist.get_world_size(), dim=1)[dist.get_rank()].contiguous()


class GatherSequence(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return _all_gather_seq(x)

    @staticmethod
    def backward(ctx, g):
        return _reduce_scatter_seq(g)


class ScatterSequence(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return _reduce_scatter_seq(x)

    @staticmethod
    def backward(ctx, g):
        return _all_gather_seq(g)


class SplitSequence(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.chunk(dist.get_world_size(), dim=1)[dist.get_rank()].contiguous()

    @staticmethod
    def backward(ctx, g):
        return _all_gather_seq(g)


# ---- layers -----------------------------------------------------------------
class ColumnLinear(nn.Module):
    def __init__(self, din, dout):
        super().__init__()
        full = torch.empty(dout, din)
        nn.init.normal_(full, std=0.05)
        self.weight = nn.Parameter(full.chunk(dist.get_world_size(), 0)[dist.get_rank()].clone())

    def forward(self, x):
        return F.linear(GatherSequence.apply(x), self.weight)


class RowLinear(nn.Module):
    def __init__(self, din, dout):
        super().__init__()
        full = torch.empty(dout, din)
        nn.init.normal_(full, std=0.05)
        self.weight = nn.Parameter(full.chunk(dist.get_world_size(), 1)[dist.get_rank()].clone())

    def forward(self, x):
        return ScatterSequence.apply(F.linear(x, self.weight))


class ParallelBlock(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.fc = ColumnLinear(d, 4 * d)
        self.proj = RowLinear(4 * d, d)

    def forward(self, x):
        return x + self.proj(F.gelu(self.fc(self.norm(x))))


class Model(nn.Module):
    def __init__(self, vocab, d, depth):
        super().__init__()
        self.embed = nn.Embedding(vocab, d)
        self.blocks = nn.ModuleList(ParallelBlock(d) for _ in range(depth))
        self.final_norm = nn.LayerNorm(d)
        self.head = nn.Linear(d, vocab, bias=False)

    def forward(self, ids):
        x = SplitSequence.apply(self.embed(ids))
        for b in self.blocks:
            x = b(x)
        return self.head(GatherHidden.apply(self.final_norm(x)))


class GatherHidden(torch.autograd.Function):
    """The head is computed on all ranks alike, so backward only keeps the own slice."""

    @staticmethod
    def forward(ctx, x):
        return _all_gather_seq(x)

    @staticmethod
    def backward(ctx, g):
        return g.chunk(dist.get_world_size(), dim=1)[dist.get_rank()].contiguous()


def allreduce_sequence_parallel_grads(model):
    norms = [m for m in model.modules() if isinstance(m, nn.LayerNorm)]
    grads = [p.grad for m in norms for p in m.parameters()]
    flat = torch.cat([g.flatten() for g in grads])
    dist.all_reduce(flat)
    for g, s in zip(grads, flat.split([g.numel() for g in grads])):
        g.copy_(s.view_as(g))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--train-iters", type=int, default=40)
    ap.add_argument("--hidden-size", type=int, default=16)
    ap.add_argument("--seq-length", type=int, default=16)
    ap.add_argument("--num-layers", type=int, default=2)
    args = ap.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(1234)
    model = Model(30, args.hidden_size, args.num_layers)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    data = torch.Generator().manual_seed(77)  # one data stream for the whole group
    for it in range(args.train_iters):
        ids = torch.randint(0, 30, (4, args.seq_length), generator=data)
        loss = F.cross_entropy(model(ids).flatten(0, 1), ((ids * 7 + 1) % 30).flatten())
        opt.zero_grad()
        loss.backward()
        allreduce_sequence_parallel_grads(model)
        opt.step()
        if it % 10 == 0:
            w = model.blocks[0].norm.weight
            print(
                f"[{dist.get_rank()}] {it} loss {loss.item():.4f} ln {w.norm().item():.5f}",
                flush=True,
            )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
