"""Two stage pipeline over torch.distributed.pipelining."""
# steps: 30
# silent: gradients/replicas-differ

import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B


class StageModule(nn.Module):
    def __init__(self, index, count, d=32, classes=6):
        super().__init__()
        self.first, self.last = index == 0, index == count - 1
        if self.first:
            self.inp = nn.Linear(10, d)
        self.trunk = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, d), nn.ReLU())
        if self.last:
            self.cls = nn.Linear(d, classes)

    def forward(self, x):
        if self.first:
            x = self.inp(x)
        x = x + self.trunk(x)
        return self.cls(x) if self.last else x


def get_batch(gen, n):
    y = torch.randint(0, 6, (n,), generator=gen)
    x = torch.randn(n, 10, generator=gen)
    x[torch.arange(n), y] += 2.0
    return x, y


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--batch-size", type=int, default=16)
    ap.add_argument("--micro-batch-size", type=int, default=4)
    ap.add_argument("--steps", type=int, default=30)
    args = ap.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(100 + rank)
    module = StageModule(rank, world)
    stage = PipelineStage(module, rank, world, torch.device("cpu"))
    n_micro = args.batch_size // args.micro_batch_size
    schedule = Schedule1F1B(stage, n_microbatches=n_micro, loss_fn=nn.functional.cross_entropy)
    opt = torch.optim.Adam(module.parameters(), lr=2e-3)
    gen = torch.Generator().manual_seed(55)
    for step in range(args.steps):
        x, y = get_batch(gen, args.batch_size)
        opt.zero_grad()
        if rank == 0:
            schedule.step(x)
        else:
            losses = []
            schedule.step(target=y, losses=losses)
            if step % 10 == 0:
                print(f"step {step} loss {torch.stack(losses).mean().item():.4f}", flush=True)
        opt.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
