"""Metrics are shared in a group of their own; the job stands still after the first epoch."""
# finding: ranks/stalled
# severity: error
# ranks: 0
# line: self.group = dist.new_group([0, 1])
# steps: 0

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Metrics:
    """Sums of this epoch; the first rank keeps the history."""

    def __init__(self):
        self.sums = torch.zeros(2)
        self.history = []
        self.group = None
        if dist.get_rank() == 0:
            self.group = dist.new_group([0, 1])

    def add(self, loss, count):
        self.sums += torch.tensor([loss * count, float(count)])

    def close_epoch(self):
        dist.all_reduce(self.sums, group=self.group)
        self.history.append((self.sums[0] / self.sums[1]).item())
        self.sums.zero_()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(14)
    x = torch.rand(128, 2)
    data = TensorDataset(x, (x[:, :1] * x[:, 1:]).sqrt())
    sampler = DistributedSampler(data)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(2, 24), nn.SiLU(), nn.Linear(24, 1)))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3)
    metrics = Metrics()
    for epoch in range(4):
        sampler.set_epoch(epoch)
        for inputs, wanted in DataLoader(data, 16, sampler=sampler):
            loss = nn.functional.smooth_l1_loss(model(inputs), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            metrics.add(loss.item(), len(inputs))
        metrics.close_epoch()
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: {metrics.history[-1]:.5f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
