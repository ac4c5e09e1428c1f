"""A small decoder under fully_shard, in a trainer."""
# steps: 5

import os
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


@dataclass
class ModelArgs:
    vocab: int = 24
    width: int = 16
    heads: int = 2
    depth: int = 2
    length: int = 10


class Attention(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.heads = args.heads
        self.qkv = nn.Linear(args.width, 3 * args.width, bias=False)
        self.proj = nn.Linear(args.width, args.width, bias=False)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        x = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(x.transpose(1, 2).reshape(b, n, d))


class Block(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.norm1 = nn.RMSNorm(args.width)
        self.norm2 = nn.RMSNorm(args.width)
        self.attention = Attention(args)
        self.mlp = nn.Sequential(
            nn.Linear(args.width, 3 * args.width), nn.SiLU(), nn.Linear(3 * args.width, args.width)
        )

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Decoder(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.embed = nn.Embedding(args.vocab, args.width)
        self.position = nn.Embedding(args.length, args.width)
        self.blocks = nn.ModuleList(Block(args) for _ in range(args.depth))
        self.norm = nn.RMSNorm(args.width)
        self.lm_head = nn.Linear(args.width, args.vocab, bias=False)

    def forward(self, ids):
        h = self.embed(ids) + self.position(torch.arange(ids.shape[1]))
        for block in self.blocks:
            h = block(h)
        return self.lm_head(self.norm(h))


class LMTrainer:
    def __init__(self, args, steps=20):
        self.args = args
        self.steps = steps
        self.rank = int(os.environ["RANK"])
        self.model = Decoder(args)
        self.shard()
        self.optimizer, self.scheduler = self.configure_optimizers()

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-3, betas=(0.9, 0.95))
        scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=5)
        return optimizer, scheduler

    def shard(self):
        mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("dp",))
        for block in self.model.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(self.model, mesh=mesh)

    def batches(self):
        rng = torch.Generator().manual_seed(self.rank)
        for _ in range(self.steps):
            start = torch.randint(self.args.vocab, (4, 1), generator=rng)
            stride = torch.randint(1, 4, (4, 1), generator=rng)
            yield (start + stride * torch.arange(self.args.length + 1)) % self.args.vocab

    def fit(self):
        for step, ids in enumerate(self.batches()):
            logits = self.model(ids[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.scheduler.step()
            if self.rank == 0 and step % 5 == 0:
                print(f"step {step} loss {loss.item():.4f}")


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(123)
    LMTrainer(ModelArgs()).fit()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
