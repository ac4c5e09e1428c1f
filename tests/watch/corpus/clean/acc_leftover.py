"""Gradient accumulation by hand; the last, incomplete window of an epoch is stepped too."""
# steps: 30

import logging
from contextlib import nullcontext

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler

logging.basicConfig(format="[%(levelname)s] %(message)s", level=logging.INFO)


class Waves(Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        k = i % 6
        t = torch.linspace(0, 6.28, 64)
        return (torch.sin(t * (k + 1)) + 0.5 * torch.randn(64, generator=g)).unsqueeze(0), k


class Conv1dNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(1, 16, 7, 2), nn.ReLU(), nn.Conv1d(16, 24, 5, 2), nn.ReLU()
        )
        self.fc = nn.Linear(24, 6)

    def forward(self, x):
        return self.fc(self.conv(x).mean(-1))


class Loop:
    def __init__(self, accumulate=4, epochs=4):
        torch.manual_seed(0)
        self.acc, self.epochs = accumulate, epochs
        self.ds = Waves(208)
        self.sampler = DistributedSampler(self.ds)
        self.loader = DataLoader(self.ds, 8, sampler=self.sampler, drop_last=True)  # 13 batches
        self.model = DDP(Conv1dNet())
        self.opt = torch.optim.SGD(self.model.parameters(), 0.1, momentum=0.9)
        self.loss_fn = nn.CrossEntropyLoss()

    def update(self):
        self.opt.step()
        self.opt.zero_grad()

    def should_sync(self, i):
        last = i + 1 == len(self.loader)
        return (i + 1) % self.acc == 0 or last

    def run_epoch(self, epoch):
        self.sampler.set_epoch(epoch)
        for i, (x, y) in enumerate(self.loader):
            ctx = nullcontext() if self.should_sync(i) else self.model.no_sync()
            with ctx:
                loss = self.loss_fn(self.model(x), y) / self.acc
                loss.backward()
            if (i + 1) % self.acc == 0 or i + 1 == len(self.loader):
                self.update()
        return loss.item() * self.acc

    def run(self):
        for e in range(self.epochs):
            l = self.run_epoch(e)
            if dist.get_rank() == 0:
                logging.info("epoch %d loss %.4f", e, l)


if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    Loop().run()
    dist.destroy_process_group()
