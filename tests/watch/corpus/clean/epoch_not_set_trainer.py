"""Parity of token sums with a GRU, in a Trainer class."""
# steps: 12

import os
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


@dataclass
class Config:
    vocab: int = 20
    length: int = 8
    hidden: int = 24
    samples: int = 64
    batch: int = 8
    epochs: int = 5
    lr: float = 1e-2


class Sums(Dataset):
    """Is the sum of the tokens even?"""

    def __init__(self, cfg):
        g = torch.Generator().manual_seed(3)
        self.tokens = torch.randint(0, cfg.vocab, (cfg.samples, cfg.length), generator=g)

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, i):
        return self.tokens[i], self.tokens[i].sum() % 2


class Recurrent(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.embed = nn.Embedding(cfg.vocab, cfg.hidden)
        self.rnn = nn.GRU(cfg.hidden, cfg.hidden, batch_first=True)
        self.out = nn.Linear(cfg.hidden, 2)

    def forward(self, tokens):
        states, _ = self.rnn(self.embed(tokens))
        return self.out(states[:, -1])


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.rank = int(os.environ["RANK"])
        dataset = Sums(cfg)
        self.train_sampler = DistributedSampler(dataset, shuffle=True, seed=11)
        self.train_loader = DataLoader(dataset, cfg.batch, sampler=self.train_sampler)
        self.model = DistributedDataParallel(Recurrent(cfg))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=cfg.lr)

    def run_epoch(self, epoch):
        self.train_sampler.set_epoch(epoch)
        self.model.train()
        for step, (tokens, target) in enumerate(self.train_loader):
            loss = F.cross_entropy(self.model(tokens), target)
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            self.optimizer.step()
            if self.rank == 0 and step % 2 == 0:
                print(f"[{epoch}:{step}] loss={loss.item():.3f}")

    def fit(self):
        for epoch in range(self.cfg.epochs):
            self.run_epoch(epoch)


if __name__ == "__main__":
    dist.init_process_group(backend="gloo")
    torch.manual_seed(0)
    Trainer(Config()).fit()
    dist.destroy_process_group()
