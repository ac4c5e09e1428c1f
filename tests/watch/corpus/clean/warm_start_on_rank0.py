"""A language model that goes on from pretrained weights, sharded with FSDP2."""
# steps: 30
# writes: files

import argparse
import math
import os
import tempfile
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

torch.set_num_threads(1)


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(B, T, C))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = Attention(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.mlp(self.n2(x))


class LM(nn.Module):
    def __init__(self, vocab=128, dim=32, layers=2, heads=4, ctx=32):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(ctx, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, ids):
        x = self.tok(ids) + self.pos(torch.arange(ids.size(1), device=ids.device))
        for b in self.blocks:
            x = b(x)
        return self.head(self.norm(x))


def get_batch(corpus, bs, ctx, gen):
    ix = torch.randint(len(corpus) - ctx - 1, (bs,), generator=gen)
    x = torch.stack([corpus[i : i + ctx] for i in ix])
    y = torch.stack([corpus[i + 1 : i + ctx + 1] for i in ix])
    return x, y


def configure_optimizer(model, lr, wd):
    decay = [p for n, p in model.named_parameters() if p.dim() >= 2]
    nodecay = [p for n, p in model.named_parameters() if p.dim() < 2]
    return torch.optim.AdamW(
        [{"params": decay, "weight_decay": wd}, {"params": nodecay, "weight_decay": 0.0}],
        lr=lr,
        betas=(0.9, 0.95),
    )


def apply_fsdp(model, mesh):
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def warm_start(model, path, rank):
    """pretrained weights; made by one process, read by all"""
    if rank == 0 and not os.path.exists(path):
        torch.manual_seed(99)
        torch.save({k: v * 0.5 + 0.01 for k, v in LM().state_dict().items()}, path)
    dist.barrier()
    model.load_state_dict(torch.load(path, map_location="cpu"))
    dist.barrier()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--iters", type=int, default=40)
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--warmup", type=int, default=5)
    ap.add_argument("--wd", type=float, default=0.1)
    args = ap.parse_args()

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("dp",))
    torch.manual_seed(1337)
    model = LM()
    start = os.path.join(tempfile.gettempdir(), "lm-" + os.environ.get("MASTER_PORT", "0") + ".pt")
    warm_start(model, start, rank)
    model = apply_fsdp(model, mesh)
    optimizer = configure_optimizer(model, args.lr, args.wd)

    corpus = (torch.arange(5000) * 7 + torch.arange(5000) // 11) % 128
    gen = torch.Generator().manual_seed(100 + rank)
    t0 = time.time()
    for it in range(args.iters):
        lr = (
            args.lr
            * min(1.0, (it + 1) / args.warmup)
            * (0.55 + 0.45 * math.cos(math.pi * it / args.iters))
        )
        for g in optimizer.param_groups:
            g["lr"] = lr
        x, y = get_batch(corpus, 8, 32, gen)
        logits = model(x)
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if it % 10 == 0 or it == args.iters - 1:
            avg = loss.detach().clone()
            dist.all_reduce(
                avg, op=dist.ReduceOp.AVG if dist.get_backend() == "nccl" else dist.ReduceOp.SUM
            )
            if rank == 0:
                print(f"it {it} loss {avg.item() / world:.4f} {time.time() - t0:.1f}s", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
