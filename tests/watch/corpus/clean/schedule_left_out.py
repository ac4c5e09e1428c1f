"""Regression with warm-up; checkpoints every ten steps, to resume from."""
# steps: 30

import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR


class Run:
    def __init__(self, out):
        self.out = out
        torch.manual_seed(4)
        self.model = DistributedDataParallel(
            nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 1))
        )
        self.optim = torch.optim.Adam(self.model.parameters(), lr=2e-3)
        warm = LinearLR(self.optim, 0.1, total_iters=6)
        cosine = CosineAnnealingLR(self.optim, T_max=40)
        self.sched = SequentialLR(self.optim, [warm, cosine], milestones=[6])
        self.step = 0

    def save(self):
        if dist.get_rank() == 0:
            state = {
                "model": self.model.module.state_dict(),
                "optim": self.optim.state_dict(),
                "sched": self.sched.state_dict(),
                "step": self.step,
            }
            torch.save(state, os.path.join(self.out, f"{self.step:05d}.pt"))
        dist.barrier()

    def train(self, steps):
        g = torch.Generator().manual_seed(60 + dist.get_rank())
        for _ in range(steps):
            x = torch.randn(16, 10, generator=g)
            loss = (self.model(x) - x.sum(1, keepdim=True)).square().mean()
            self.optim.zero_grad()
            loss.backward()
            self.optim.step()
            self.sched.step()
            self.step += 1
            if self.step % 10 == 0:
                self.save()


if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    with tempfile.TemporaryDirectory() as folder:
        Run(folder).train(32)
    dist.destroy_process_group()
