"""Masked waves, with workers whose seeds differ by rank."""
# steps: 14

import argparse

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class MaskedSeries(Dataset):
    """Fill in what is masked of a sum of two waves."""

    def __init__(self, count, length, ratio):
        t = np.linspace(0, 1, length)
        number = np.arange(count)[:, None]
        waves = np.sin((1 + number % 5) * 6.28 * t) + 0.3 * np.cos((2 + number % 3) * 6.28 * t)
        self.waves = waves.astype(np.float32)
        self.ratio = ratio

    def __len__(self):
        return len(self.waves)

    def __getitem__(self, i):
        wave = self.waves[i]
        hidden = np.random.rand(len(wave)) < self.ratio
        return torch.from_numpy(np.where(hidden, 0, wave)), torch.from_numpy(wave)


def reseed(worker_id):
    # workers of all ranks have the same seeds from torch
    np.random.seed((torch.initial_seed() + 1000 * dist.get_rank()) % 2**32)


class Experiment:
    def __init__(self, args):
        self.args = args
        data = MaskedSeries(args.count, args.length, args.mask)
        self.sampler = DistributedSampler(data)
        self.loader = DataLoader(
            data, args.batch_size, sampler=self.sampler, num_workers=2, worker_init_fn=reseed
        )
        width = args.length
        net = nn.Sequential(nn.Linear(width, 48), nn.GELU(), nn.LayerNorm(48), nn.Linear(48, width))
        self.net = DDP(net)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=3e-3)

    def run(self):
        for epoch in range(self.args.epochs):
            self.sampler.set_epoch(epoch)
            for series, target in self.loader:
                loss = (self.net(series) - target).square().mean()
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            print(f"rank {dist.get_rank()} epoch {epoch} {loss.item():.4f}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=160)
    parser.add_argument("--length", type=int, default=24)
    parser.add_argument("--mask", type=float, default=0.3)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=11)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(args.seed)
    Experiment(args).run()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
