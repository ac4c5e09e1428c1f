"""Char level LM on a text file, streamed."""
# steps: 30
# writes: files

import argparse
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

WORDS = (
    "the quick brown fox jumps over the lazy dog while seven wizards box and a queen "
    "gives zeal to every job you might have known before"
).split()


def write_corpus(path, lines=480):
    import random

    r = random.Random(3)
    with open(path, "w") as f:
        for i in range(lines):
            f.write(f"{i} " + " ".join(r.choice(WORDS) for _ in range(14)) + "\n")


class TextStream(IterableDataset):
    """Streams lines, every dataloader worker takes its own lines."""

    def __init__(self, path, block, rank, world):
        self.path = path
        self.rank, self.world = rank, world
        self.block = block

    def encode(self, line):
        ids = list(line.encode("utf8"))[: self.block + 1]
        ids += [0] * (self.block + 1 - len(ids))
        return torch.tensor(ids, dtype=torch.long)

    def __iter__(self):
        info = get_worker_info()
        wid, nw = (0, 1) if info is None else (info.id, info.num_workers)
        shard, num = self.rank * nw + wid, self.world * nw
        with open(self.path) as f:
            for i, line in enumerate(f):
                if i % num != shard:
                    continue
                ids = self.encode(line.rstrip("\n"))
                yield {"input_ids": ids[:-1], "labels": ids[1:]}


class Block(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.attn = nn.MultiheadAttention(d, h, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x, mask):
        y = self.ln1(x)
        x = x + self.attn(y, y, y, attn_mask=mask, need_weights=False)[0]
        return x + self.mlp(self.ln2(x))


class CharLM(nn.Module):
    def __init__(self, vocab=256, d=32, n=2, block=48):
        super().__init__()
        self.tok = nn.Embedding(vocab, d)
        self.pos = nn.Parameter(torch.zeros(1, block, d))
        self.blocks = nn.ModuleList(Block(d, 4) for _ in range(n))
        self.head = nn.Linear(d, vocab, bias=False)
        self.register_buffer(
            "mask", torch.full((block, block), float("-inf")).triu(1), persistent=False
        )

    def forward(self, ids):
        x = self.tok(ids) + self.pos[:, : ids.shape[1]]
        for b in self.blocks:
            x = b(x, self.mask[: ids.shape[1], : ids.shape[1]])
        return self.head(x)


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--data", default="corpus.txt")
    p.add_argument("--block", type=int, default=48)
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--max-steps", type=int, default=24)
    p.add_argument("--workers", type=int, default=2)
    return p.parse_args()


def main():
    a = parse()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    if rank == 0:
        write_corpus(a.data)
    dist.barrier()

    torch.manual_seed(11)
    model = nn.parallel.DistributedDataParallel(CharLM(block=a.block))
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    ds = TextStream(a.data, a.block, rank, dist.get_world_size())
    loader = DataLoader(ds, batch_size=a.batch, num_workers=a.workers, drop_last=True)
    t0, tokens = time.time(), 0
    for step, batch in enumerate(loader):
        logits = model(batch["input_ids"])
        loss = nn.functional.cross_entropy(
            logits.flatten(0, 1), batch["labels"].flatten(), ignore_index=0
        )
        opt.zero_grad()
        loss.backward()
        opt.step()
        tokens += batch["input_ids"].numel() * dist.get_world_size()
        if rank == 0 and step % 8 == 0:
            print(f"step {step:4d} loss {loss.item():.3f} {tokens / (time.time() - t0):.0f} tok/s")
        if step + 1 >= a.max_steps:
            break
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
