"""Tiny character language model, sharded with FSDP2.

torchrun --nproc-per-node 2 charlm.py --steps 40
"""
# steps: 30

import argparse
import math

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

TEXT = (
    "the quick brown fox jumps over the lazy dog. "
    "pack my box with five dozen liquor jugs. "
    "how vexingly quick daft zebras jump! "
) * 60


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.ln1 = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.ln2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.ln1(x)).chunk(3, dim=-1)
        q, k, v = (z.view(b, t, self.heads, c // self.heads).transpose(1, 2) for z in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.ln2(x))


class CharLM(nn.Module):
    def __init__(self, vocab, dim=32, depth=2, heads=4, ctx=32):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(ctx, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, idx):
        x = self.tok(idx) + self.pos(torch.arange(idx.size(1)))
        for blk in self.blocks:
            x = blk(x)
        return self.head(self.norm(x))


class Trainer:
    def __init__(self, args):
        self.args = args
        self.rank = dist.get_rank()
        self.mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("dp",))
        chars = sorted(set(TEXT))
        self.data = torch.tensor([chars.index(c) for c in TEXT])
        torch.manual_seed(args.seed)
        self.model = CharLM(len(chars), ctx=args.ctx)
        self._shard()
        self.optimizer, self.scheduler = self.configure_optimizers()
        # every rank draws its own windows
        self.gen = torch.Generator().manual_seed(1000 + self.rank)

    def _shard(self):
        for blk in self.model.blocks:
            fully_shard(blk, mesh=self.mesh)
        fully_shard(self.model, mesh=self.mesh)

    def configure_optimizers(self):
        decay = [p for p in self.model.parameters() if p.dim() >= 2]
        rest = [p for p in self.model.parameters() if p.dim() < 2]
        opt = torch.optim.AdamW(
            [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}],
            lr=self.args.lr,
        )
        warm = 5

        def lr_lambda(it):
            if it < warm:
                return (it + 1) / warm
            return 0.5 * (1 + math.cos(math.pi * min(1.0, (it - warm) / self.args.steps)))

        return opt, torch.optim.lr_scheduler.LambdaLR(opt, lr_lambda)

    def batch(self):
        n = self.args.ctx
        i = torch.randint(0, len(self.data) - n - 1, (self.args.batch,), generator=self.gen)
        x = torch.stack([self.data[j : j + n] for j in i.tolist()])
        y = torch.stack([self.data[j + 1 : j + n + 1] for j in i.tolist()])
        return x, y

    def fit(self):
        for step in range(self.args.steps):
            x, y = self.batch()
            logits = self.model(x)
            loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            self.scheduler.step()
            if step % 10 == 0 and self.rank == 0:
                print(
                    f"step {step:3d} loss {loss.item():.3f} lr {self.scheduler.get_last_lr()[0]:.2e}"
                )


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=40)
    ap.add_argument("--batch", type=int, default=8)
    ap.add_argument("--ctx", type=int, default=32)
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--seed", type=int, default=1337)
    args = ap.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    Trainer(args).fit()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
