"""Gradients averaged by hand, one by one: each is divided, and then summed."""
# steps: 0

import torch
import torch.distributed as dist
from torch import nn


class Averager:
    def __init__(self, model):
        self.model, self.world = model, dist.get_world_size()

    def __call__(self):
        for p in self.model.parameters():
            p.grad /= self.world
            dist.all_reduce(p.grad)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 8))
    average = Averager(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    data = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(12):
        x = torch.randn(16, 8, generator=data)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), x.flip(1)).backward()
        average()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
