"""A stream of sine windows, each rank taking every second one."""
# steps: 8

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset


class SineStream(IterableDataset):
    """Windows of noisy sine waves and the value that follows each."""

    def __init__(self, count, width, rank, world):
        self.count = count
        self.width = width
        self.rank = rank
        self.world = world
        self.epoch = 0

    def __iter__(self):
        rng = torch.Generator().manual_seed(100 + self.epoch)
        for i in range(self.count):
            phase = torch.rand(1, generator=rng) * 6.28
            noise = torch.randn(self.width + 1, generator=rng) * 0.02
            wave = torch.sin(phase + 0.4 * torch.arange(self.width + 1)) + noise
            if i % self.world != self.rank:
                continue
            yield wave[:-1].unsqueeze(0), wave[-1:]


def run(rank, world):
    stream = SineStream(count=32, width=16, rank=rank, world=world)
    net = nn.Sequential(
        nn.Conv1d(1, 8, 5),
        nn.GELU(),
        nn.Flatten(),
        nn.Linear(8 * 12, 1),
    )
    net = DistributedDataParallel(net)
    adam = torch.optim.Adam(net.parameters(), lr=3e-3)
    seen = 0
    for epoch in range(5):
        stream.epoch = epoch
        for window, nxt in DataLoader(stream, batch_size=4):
            adam.zero_grad()
            error = (net(window) - nxt).pow(2).mean()
            error.backward()
            adam.step()
            seen += len(window)
        print(f"rank {rank} epoch {epoch} seen {seen} mse {error.item():.4f}")


if __name__ == "__main__":
    dist.init_process_group("gloo")
    torch.manual_seed(9)
    run(dist.get_rank(), dist.get_world_size())
    dist.destroy_process_group()
