"""Spectrograms are computed in the loader, on every rank, and take most of the step."""
# steps: 24

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

RATE = 8000


class Tones(Dataset):
    def __init__(self, count, window=256):
        self.count = count
        self.window = np.hanning(window)

    def __len__(self):
        return self.count

    def wave(self, index):
        rng = np.random.default_rng(index)
        t = np.arange(RATE) / RATE
        pitch = 200 * (1 + index % 4)
        return np.sin(2 * np.pi * pitch * t) + 0.3 * rng.standard_normal(RATE)

    def __getitem__(self, index):
        frames = np.lib.stride_tricks.sliding_window_view(self.wave(index), len(self.window))[::64]
        spectrum = np.abs(np.fft.rfft(frames * self.window, axis=1))[:, :64]
        return torch.from_numpy(np.log1p(spectrum)).float().mean(0), index % 4


def loaders(batch_size, epochs):
    data = Tones(192)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=batch_size, sampler=sampler)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        yield epoch, loader


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(4)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 4)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch, loader in loaders(batch_size=8, epochs=3):
        for spectrum, tone in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(spectrum), tone)
            loss.backward()
            optimizer.step()
        print(f"rank {dist.get_rank()} epoch {epoch} loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
