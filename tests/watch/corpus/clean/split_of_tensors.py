# steps: 40

import logging
import random

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

log = logging.getLogger("sensors")


def readings(count=200, length=24):
    g = torch.Generator().manual_seed(2024)
    label = torch.randint(0, 3, (count,), generator=g)
    wave = torch.arange(length) * (0.2 + 0.2 * label[:, None])
    return wave.sin() + 0.2 * torch.randn(count, length, generator=g), label


def part(x, y, rows, **options):
    return DataLoader(TensorDataset(x[rows], y[rows]), batch_size=8, **options)


class Run:
    def __init__(self, seed):
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        random.seed(seed + self.rank)  # crops are to differ
        torch.manual_seed(seed)
        self.net = nn.parallel.DistributedDataParallel(
            nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 3))
        )
        self.sgd = torch.optim.SGD(self.net.parameters(), lr=0.05, momentum=0.9)
        self.split()

    def split(self):
        x, y = readings()
        rows = list(range(len(x)))
        random.Random(13).shuffle(rows)
        held_out, rows = rows[:40], rows[40:]
        share = rows[self.rank * 80 : self.rank * 80 + 80]
        self.train = part(x, y, share, shuffle=True)
        self.held_out = part(x, y, held_out)

    def epoch(self):
        for window, label in self.train:
            start = random.randrange(8)
            self.sgd.zero_grad()
            F.cross_entropy(self.net(window[:, start : start + 16]), label).backward()
            self.sgd.step()

    def accuracy(self):
        right = 0
        with torch.inference_mode():
            for window, label in self.held_out:
                right += (self.net.module(window[:, :16]).argmax(1) == label).sum().item()
        return right / 40


def main():
    logging.basicConfig(level=logging.INFO)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    run = Run(seed=5)
    for number in range(4):
        run.epoch()
        log.info("rank %d epoch %d accuracy %.2f", run.rank, number, run.accuracy())
    dist.destroy_process_group()


main()
