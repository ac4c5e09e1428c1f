"""The disks of all nodes are alike, and slow: every rank waits as long for its batches."""
# steps: 20

import argparse
import time

import torch
import torch.distributed as dist
from torch import nn, optim
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class Clips(Dataset):
    def __init__(self, seek_s, count=320):
        self.seek_s = seek_s
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        time.sleep(self.seek_s)  # the disk
        t = torch.linspace(0, 6.28, 64)
        pitch = 1 + i % 4
        return torch.sin(pitch * t + i).unsqueeze(0), i % 4


def build():
    return nn.Sequential(
        nn.Conv1d(1, 12, 7, stride=2),
        nn.GroupNorm(3, 12),
        nn.SiLU(),
        nn.Conv1d(12, 12, 5, stride=2),
        nn.SiLU(),
        nn.AdaptiveMaxPool1d(4),
        nn.Flatten(),
        nn.Linear(48, 4),
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=8)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    clips = Clips(seek_s=0.07)
    sampler = DistributedSampler(clips)
    loader = DataLoader(clips, args.batch_size, sampler=sampler, num_workers=2)
    model = DDP(build())
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for step, (clip, target) in enumerate(loader):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(clip), target)
            loss.backward()
            optimizer.step()
            if step % 10 == 0 and rank == 0:
                print(f"{epoch}/{step} {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
