# Bags of slides from a generator: a bag has one to three parts, and one loss over all of them.
# steps: 30

import random

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Attention(nn.Module):
    def __init__(self, dim=10):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(dim, 16), nn.ReLU())
        self.weigh = nn.Linear(16, 1)
        self.answer = nn.Linear(16, 1)

    def forward(self, patches):
        h = self.encode(patches)
        return self.answer((self.weigh(h).softmax(0) * h).sum(0))


def bags(rank, count=40):
    rng = random.Random(rank)
    g = torch.Generator().manual_seed(rank)
    for _ in range(count):
        label = rng.randint(0, 1)
        parts = [torch.randn(8, 10, generator=g) + label for _ in range(rng.randint(1, 3))]
        yield parts, torch.tensor([float(label)])


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(4)
    model = DistributedDataParallel(Attention())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for number, (parts, label) in enumerate(bags(rank)):
        score = torch.stack([model(patches) for patches in parts]).mean(0)
        loss = nn.functional.binary_cross_entropy_with_logits(score, label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if number % 20 == 19:
            print(f"rank {rank} bag {number}: loss {loss.item():.3f}", flush=True)
    dist.destroy_process_group()


main()
