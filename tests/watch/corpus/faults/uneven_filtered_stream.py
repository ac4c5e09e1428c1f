"""Two ranks with their own log files: connection closed by peer after the last epoch."""
# finding: data/ran-out-first
# severity: error
# ranks: 0
# line: loss.backward()
# steps: 30

import argparse
import os
import random

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class BagOfWords(nn.Module):
    def __init__(self, vocabulary, dim=12):
        super().__init__()
        self.words = nn.EmbeddingBag(vocabulary, dim, mode="mean")
        self.decide = nn.Linear(dim, 2)

    def forward(self, ids):
        return self.decide(self.words(ids))


def read_log(rank, vocabulary):
    """Lines of the log file of this rank, without those that are too short."""
    rng = torch.Generator().manual_seed(300 + rank)
    written = 36 if rank == 0 else 42
    for number in range(written):
        length = 3 if number % 18 == 17 else 8
        line = torch.randint(vocabulary, (length,), generator=rng)
        if len(line) >= 8:
            yield line


def batches(lines, size):
    full = len(lines) // size * size
    for at in range(0, full, size):
        ids = torch.stack(lines[at : at + size])
        yield ids, (ids.float().mean(1) > 24.5).long()


def train(cfg):
    rank = int(os.environ["RANK"])
    torch.manual_seed(cfg.seed)
    lines = list(read_log(rank, cfg.vocabulary))
    model = DDP(BagOfWords(cfg.vocabulary))
    optimizer = torch.optim.SGD(model.parameters(), lr=cfg.lr)
    for epoch in range(cfg.epochs):
        random.Random(100 * rank + epoch).shuffle(lines)
        for batch, (ids, label) in enumerate(batches(lines, cfg.batch_size), start=1):
            loss = nn.functional.cross_entropy(model(ids), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"rank {rank} epoch {epoch}: {batch} batches, loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--vocabulary", type=int, default=50)
    parser.add_argument("--lr", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=0)
    dist.init_process_group("gloo")
    train(parser.parse_args())
    dist.destroy_process_group()
