"""Sequence tagger with FSDP2 and periodic checkpoints."""
# fault: F02
# finding: ranks/other-collective
# severity: error
# ranks: 0, 1
# line: value = value.full_tensor()
# steps: 30
# writes: files

import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor


@dataclass
class Config:
    vocab: int = 64
    tags: int = 5
    hidden: int = 32
    layers: int = 2
    batch: int = 8
    seq: int = 12
    steps: int = 24
    save_every: int = 8
    lr: float = 2e-3
    out: str = os.path.join(tempfile.gettempdir(), "tagger_ckpt")


class Tagger(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.emb = nn.Embedding(cfg.vocab, cfg.hidden)
        self.encoder = nn.ModuleList(
            nn.TransformerEncoderLayer(cfg.hidden, 4, 64, dropout=0.0, batch_first=True)
            for _ in range(cfg.layers)
        )
        self.out = nn.Linear(cfg.hidden, cfg.tags)

    def forward(self, tokens):
        h = self.emb(tokens)
        for layer in self.encoder:
            h = layer(h)
        return self.out(h)


class Checkpointer:
    def __init__(self, root, keep=2):
        self.root = Path(root)
        self.keep = keep
        self.saved = []
        if dist.get_rank() == 0:
            self.root.mkdir(parents=True, exist_ok=True)
        dist.barrier()

    def _gather(self, model):
        state = {}
        for name, value in model.state_dict().items():
            if isinstance(value, DTensor):
                value = value.full_tensor()
            state[name] = value.cpu()
        return state

    def save(self, model, step):
        path = self.root / f"step{step:05d}.pt"
        if dist.get_rank() == 0:
            torch.save({"model": self._gather(model), "step": step}, path)
            self.saved.append(path)
            for old in self.saved[: -self.keep]:
                old.unlink(missing_ok=True)
            self.saved = self.saved[-self.keep :]
            print(f"saved {path.name}", flush=True)


def synthetic_batches(cfg, rank):
    g = torch.Generator().manual_seed(17 * (rank + 1))
    while True:
        x = torch.randint(0, cfg.vocab, (cfg.batch, cfg.seq), generator=g)
        yield x, (x * 3 + x.roll(1, 1)) % cfg.tags


def build(cfg):
    torch.manual_seed(3)
    model = Tagger(cfg)
    for layer in model.encoder:
        fully_shard(layer)
    return fully_shard(model)


def main():
    cfg = Config()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = build(cfg)
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    ckpt = Checkpointer(cfg.out)
    stream = synthetic_batches(cfg, rank)
    t0 = time.time()
    for step in range(1, cfg.steps + 1):
        tokens, tags = next(stream)
        loss = nn.functional.cross_entropy(model(tokens).transpose(1, 2), tags)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % cfg.save_every == 0:
            ckpt.save(model, step)
        if rank == 0 and step % 4 == 0:
            print(f"{step:4d}  {loss.item():.4f}  {time.time() - t0:.1f}s", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
