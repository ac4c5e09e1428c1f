# fault: G02
# finding: gradients/unused-parameters
# severity: error
# ranks: any
# steps: 30

# Speech encoder with LayerDrop, CTC-free toy (frame classification).
import os
import random
from dataclasses import dataclass

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F


@dataclass
class Config:
    d: int = 48
    heads: int = 4
    layers: int = 6
    layerdrop: float = 0.2
    vocab: int = 11
    feat: int = 20
    frames: int = 30
    batch: int = 8
    max_updates: int = 40
    lr: float = 5e-4
    seed: int = 1337


class EncoderLayer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.ln1 = nn.LayerNorm(cfg.d)
        self.attn = nn.MultiheadAttention(cfg.d, cfg.heads, batch_first=True)
        self.ln2 = nn.LayerNorm(cfg.d)
        self.ffn = nn.Sequential(
            nn.Linear(cfg.d, 2 * cfg.d), nn.GELU(), nn.Linear(2 * cfg.d, cfg.d)
        )

    def forward(self, x):
        h = self.ln1(x)
        x = x + self.attn(h, h, h, need_weights=False)[0]
        return x + self.ffn(self.ln2(x))


class SpeechEncoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.inp = nn.Linear(cfg.feat, cfg.d)
        self.layers = nn.ModuleList([EncoderLayer(cfg) for _ in range(cfg.layers)])
        self.out = nn.Linear(cfg.d, cfg.vocab)

    def forward(self, feats):
        x = self.inp(feats)
        for layer in self.layers:
            dropout_probability = random.random()
            if self.training and dropout_probability < self.cfg.layerdrop:
                continue
            x = layer(x)
        return self.out(x)


class Corpus(torch.utils.data.IterableDataset):
    """endless stream; every rank draws its own utterances"""

    def __init__(self, cfg, rank):
        self.cfg, self.rank = cfg, rank
        g = torch.Generator().manual_seed(99)
        self.codebook = torch.randn(cfg.vocab, cfg.feat, generator=g)

    def __iter__(self):
        rng = np.random.default_rng(self.cfg.seed + self.rank)
        while True:
            y = torch.from_numpy(rng.integers(0, self.cfg.vocab, self.cfg.frames))
            noise = torch.from_numpy(
                rng.normal(0, 0.5, (self.cfg.frames, self.cfg.feat)).astype("float32")
            )
            yield self.codebook[y] + noise, y


def seed_everything(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def train(cfg):
    dist.init_process_group(backend="gloo")
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    seed_everything(cfg.seed + rank)

    model = nn.parallel.DistributedDataParallel(SpeechEncoder(cfg))
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr, betas=(0.9, 0.98))
    warm = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / 10))
    stream = torch.utils.data.DataLoader(Corpus(cfg, rank), batch_size=cfg.batch)

    running = 0.0
    for update, (feats, target) in enumerate(stream):
        if update >= cfg.max_updates:
            break
        logits = model(feats)
        loss = F.cross_entropy(logits.transpose(1, 2), target)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()
        warm.step()
        opt.zero_grad()
        running = 0.9 * running + 0.1 * loss.item()
        if update % 10 == 0 and rank == 0:
            print(f"| update {update} | loss {running:.3f} | world {world}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    train(Config())
