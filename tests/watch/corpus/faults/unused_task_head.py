"""Multi-task training crashes on two processes; it runs on one."""
# finding: gradients/unused-parameters
# severity: error
# ranks: 0, 1
# steps: 4

import itertools
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


class MultiTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(12, 32), nn.LeakyReLU(), nn.LayerNorm(32))
        self.heads = nn.ModuleDict({"price": nn.Linear(32, 1), "kind": nn.Linear(32, 5)})

    def forward(self, x, task):
        return self.heads[task](self.trunk(x))


def loss_for(task, output, target):
    if task == "price":
        return nn.functional.l1_loss(output.squeeze(-1), target)
    return nn.functional.cross_entropy(output, target)


def batches(task):
    gen = torch.Generator().manual_seed(rank * 17 + len(task))
    while True:
        x = torch.randn(6, 12, generator=gen)
        yield task, x, (x.sum(1) if task == "price" else x[:, :5].argmax(1))


def train():
    model = DistributedDataParallel(MultiTask())
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    mixed = zip(batches("price"), batches("kind"), strict=False)
    alternating = itertools.chain.from_iterable(mixed)
    for step, (task, x, target) in enumerate(itertools.islice(alternating, 24)):
        loss = loss_for(task, model(x, task), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0:
            print(step, task, f"{loss.item():.3f}")


dist.init_process_group("gloo", rank=rank, world_size=world)
torch.manual_seed(0)
train()
dist.destroy_process_group()
