"""Dual encoder (query tower / document tower) with FSDP2.

The retrieval loss needs both towers, so the loop calls them by name."""
# steps: 30

import argparse
import logging

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

logger = logging.getLogger(__name__)


class Tower(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(
                nn.LayerNorm(width),
                nn.Linear(width, 2 * width),
                nn.SiLU(),
                nn.Linear(2 * width, width),
            )
            for _ in range(depth)
        )

    def forward(self, h):
        for f in self.layers:
            h = h + f(h)
        return h


class DualEncoder(nn.Module):
    def __init__(self, vocab=100, width=24, depth=2, out=16):
        super().__init__()
        self.words = nn.Embedding(vocab, width)
        self.query = Tower(width, depth)
        self.doc = Tower(width, depth)
        self.project = nn.Linear(width, out)

    def encode_query(self, ids):
        return F.normalize(self.project(self.query(self.words(ids).mean(1))), dim=-1)

    def encode_doc(self, ids):
        return F.normalize(self.project(self.doc(self.words(ids).mean(1))), dim=-1)

    def forward(self, q, d):
        return self.encode_query(q) @ self.encode_doc(d).T


def shard(model):
    for tower in (model.query, model.doc):
        fully_shard(tower)
    fully_shard(model)
    register_fsdp_forward_method(model, "encode_query")
    register_fsdp_forward_method(model, "encode_doc")
    return model


def pairs(batch, gen):
    d = torch.randint(0, 100, (batch, 10), generator=gen)
    q = d[:, torch.randperm(10, generator=gen)[:4]]
    return q, d


def recall_at_1(model, gen):
    model.eval()
    with torch.no_grad():
        q, d = pairs(16, gen)
        scores = model.encode_query(q) @ model.encode_doc(d).T
    model.train()
    return (scores.argmax(1) == torch.arange(16)).float().mean().item()


def run(args):
    rank = dist.get_rank()
    torch.manual_seed(args.seed)
    model = shard(DualEncoder())
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    gen = torch.Generator().manual_seed(args.seed + 1 + rank)
    target = torch.arange(args.batch)
    for step in range(args.steps):
        q, d = pairs(args.batch, gen)
        loss = F.cross_entropy(model(q, d) / 0.1, target)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if (step + 1) % args.eval_every == 0:
            r1 = recall_at_1(model, gen)
            logger.info("step %d loss %.4f recall@1 %.2f", step + 1, loss.item(), r1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--batch", type=int, default=12)
    parser.add_argument("--eval-every", type=int, default=10)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=9)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    logging.basicConfig(level=logging.INFO if dist.get_rank() == 0 else logging.ERROR)
    run(args)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
