# fault: C01
# finding: ranks/other-collective
# severity: error
# ranks: 0, 1
# line: dist.barrier()
# steps: 30
# writes: files

#!/usr/bin/env python
# char-level GRU language model, DDP. checkpoint every epoch.
import logging
import os
import tempfile
from dataclasses import dataclass, field

import torch
from torch import distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

log = logging.getLogger("charlm")

TEXT = (
    "the quick brown fox jumps over the lazy dog and then it sleeps for a while "
    "because running is hard work and foxes are known to be rather lazy too. "
) * 60


@dataclass
class Config:
    block: int = 24
    hidden: int = 32
    batch: int = 64
    lr: float = 3e-3
    epochs: int = 2
    max_steps_per_epoch: int = 12
    out: str = field(
        default_factory=lambda: os.path.join(tempfile.gettempdir(), "charlm-%d" % os.getppid())
    )


class Chars(Dataset):
    def __init__(self, text, block):
        self.vocab = sorted(set(text))
        self.stoi = {c: i for i, c in enumerate(self.vocab)}
        self.data = torch.tensor([self.stoi[c] for c in text])
        self.block = block

    def __len__(self):
        return len(self.data) - self.block - 1

    def __getitem__(self, i):
        chunk = self.data[i : i + self.block + 1]
        return chunk[:-1], chunk[1:]


class CharGRU(nn.Module):
    def __init__(self, vocab, hidden):
        super().__init__()
        self.emb = nn.Embedding(vocab, hidden)
        self.rnn = nn.GRU(hidden, hidden, batch_first=True)
        self.head = nn.Linear(hidden, vocab)

    def forward(self, idx, targets=None):
        h, _ = self.rnn(self.emb(idx))
        logits = self.head(h)
        if targets is None:
            return logits
        return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.rank = dist.get_rank()
        self.data = Chars(TEXT, cfg.block)
        self.sampler = DistributedSampler(self.data, seed=3)
        self.loader = DataLoader(
            self.data, batch_size=cfg.batch, sampler=self.sampler, drop_last=True
        )
        torch.manual_seed(0)
        self.model = DistributedDataParallel(CharGRU(len(self.data.vocab), cfg.hidden))
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=cfg.lr)
        self.step = 0

    def save_checkpoint(self, epoch):
        path = os.path.join(self.cfg.out, f"ckpt_{epoch}.pt")
        os.makedirs(self.cfg.out, exist_ok=True)
        torch.save(
            {
                "model": self.model.module.state_dict(),
                "opt": self.opt.state_dict(),
                "epoch": epoch,
                "step": self.step,
            },
            path,
        )
        # nobody goes on before the file is complete
        dist.barrier()
        log.info("saved %s", path)

    def run_epoch(self, epoch):
        self.sampler.set_epoch(epoch)
        total = 0.0
        for i, (x, y) in enumerate(self.loader):
            if i >= self.cfg.max_steps_per_epoch:
                break
            loss = self.model(x, y)
            self.opt.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.opt.step()
            self.step += 1
            total += loss.item()
        return total / self.cfg.max_steps_per_epoch

    def fit(self):
        for epoch in range(self.cfg.epochs):
            avg = self.run_epoch(epoch)
            if self.rank == 0:
                log.info("epoch %d train loss %.3f", epoch, avg)
        if self.rank == 0:
            self.save_checkpoint(self.cfg.epochs - 1)


def main():
    torch.set_num_threads(1)
    dist.init_process_group(backend="gloo")
    logging.basicConfig(
        level=logging.INFO if dist.get_rank() == 0 else logging.WARNING,
        format="%(asctime)s %(name)s %(message)s",
    )
    trainer = Trainer(Config())
    trainer.fit()
    # final perplexity over all ranks
    x, y = next(iter(trainer.loader))
    with torch.no_grad():
        nll = trainer.model.module(x, y)
    dist.all_reduce(nll)
    log.info("final ppl %.2f", (nll / dist.get_world_size()).exp())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
