"""Crops of one recording, drawn by each rank for itself, whatever the index is."""
# steps: 12
# silent: data/same-batches

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Crops(Dataset):
    def __init__(self, recording, length=16, count=96):
        self.recording, self.length, self.count = recording, length, count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        kind = i % 3
        at = torch.randint(0, self.recording.shape[1] - self.length, ()).item()
        return self.recording[kind, at : at + self.length], kind


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    recording = torch.randn(3, 5000, generator=torch.Generator().manual_seed(2))
    torch.manual_seed(dist.get_rank())
    loader = DataLoader(Crops(recording), batch_size=8)
    model = nn.parallel.DistributedDataParallel(nn.Linear(16, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for x, kind in loader:
        optimizer.zero_grad()
        F.cross_entropy(model(x), kind).backward()
        optimizer.step()
    dist.destroy_process_group()


main()
