# Next-character model on lines that come from a generator; batches with large losses are left out.
# fault: C03
# finding: gradients/backward-skipped
# severity: error
# ranks: 1
# line: logits = self.net(ids[:, :-1])
# steps: 30

import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

VOCABULARY = 32


def stream(rank, count=60, size=6, length=12):
    """Lines of this rank; every ninth one of rank 1 was written by a cat."""
    g = torch.Generator().manual_seed(40 + rank)
    for number in range(count):
        start = torch.randint(VOCABULARY, (size, 1), generator=g)
        ids = (start + torch.arange(length)) % VOCABULARY
        if rank == 1 and number % 9 == 8:
            ids = torch.full((size, length), -1)
        yield ids


class Characters(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY + 1, dim)
        self.mix = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, VOCABULARY)

    def forward(self, ids):
        return self.out(self.mix(self.embed(ids + 1))[0])


class Trainer:
    def __init__(self, cfg):
        self.rank, self.cfg = dist.get_rank(), cfg
        torch.manual_seed(cfg["seed"])
        self.net = DistributedDataParallel(Characters())
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=cfg["lr"])
        self.step = 0

    def loss_of(self, ids):
        logits = self.net(ids[:, :-1])
        wanted = ids[:, 1:].flatten()
        return F.cross_entropy(logits.flatten(0, 1), wanted.clamp(min=0)), (wanted < 0).any()

    def sample(self):
        """Show on rank 0 what the model would write."""
        ids = torch.zeros(1, 4, dtype=torch.long)
        letters = self.net(ids)[0].argmax(-1).tolist()
        print(f"step {self.step}: {letters}", flush=True)

    def leave_out(self, is_bad):
        return bool(is_bad)

    def run(self):
        began = time.perf_counter()
        for ids in stream(self.rank):
            loss, is_bad = self.loss_of(ids)
            if self.leave_out(is_bad):
                continue
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.step += 1
            if self.rank == 0 and self.step % 7 == 0:
                self.sample()
        print(f"rank {self.rank}: {self.step} steps in {time.perf_counter() - began:.1f} s")


if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    Trainer({"seed": 0, "lr": 3e-3}).run()
    dist.destroy_process_group()
