"""After an update of the image, ranks on the new node are killed by the watchdog in their first step."""
# finding: performance/long-wait
# severity: warning
# ranks: 1
# line: self.loss(batch).backward()
# steps: 6

import os
import time
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


@dataclass
class Config:
    width: int = 24
    heads: int = 3
    length: int = 10
    vocabulary: int = 60
    batch: int = 8
    epochs: int = 2


class KernelCache:
    """Kernels that were built for this machine; what is missing is built when it is first needed."""

    build_s = 7.0

    def __init__(self, is_warm):
        self.is_warm = is_warm

    def kernel(self):
        if not self.is_warm:
            time.sleep(self.build_s)  # the compiler
            self.is_warm = True
        return nn.functional.scaled_dot_product_attention


class Attention(nn.Module):
    def __init__(self, config, cache):
        super().__init__()
        self.cache = cache
        self.heads = config.heads
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.out = nn.Linear(config.width, config.width)

    def forward(self, x):
        attend = self.cache.kernel()
        split = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = attend(*split, is_causal=True)
        return x + self.out(y.transpose(1, 2).flatten(2))


class NextToken(nn.Module):
    def __init__(self, config, cache):
        super().__init__()
        self.embed = nn.Embedding(config.vocabulary, config.width)
        self.attention = Attention(config, cache)
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.vocabulary)

    def forward(self, tokens):
        return self.head(self.norm(self.attention(self.embed(tokens))))


class Counting(Dataset):
    """Counts on from somewhere, in steps of one to three."""

    def __init__(self, config):
        self.config = config

    def __len__(self):
        return 96

    def __getitem__(self, i):
        steps = torch.arange(self.config.length + 1) * (1 + i % 3)
        return (i + steps) % self.config.vocabulary


class Trainer:
    def __init__(self, config, rank):
        self.config = config
        data = Counting(config)
        self.sampler = DistributedSampler(data)
        self.loader = DataLoader(data, config.batch, sampler=self.sampler)
        # the image of the first node has the kernels in it
        cache = KernelCache(is_warm=rank == 0)
        self.model = DistributedDataParallel(NextToken(config, cache))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)

    def loss(self, tokens):
        logits = self.model(tokens[:, :-1])
        return nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

    def train(self):
        for epoch in range(self.config.epochs):
            self.sampler.set_epoch(epoch)
            for batch in self.loader:
                self.optimizer.zero_grad()
                self.loss(batch).backward()
                self.optimizer.step()


if __name__ == "__main__":
    dist.init_process_group("gloo", timeout=timedelta(seconds=16))
    torch.manual_seed(0)
    Trainer(Config(), int(os.environ["RANK"])).train()
    dist.destroy_process_group()
