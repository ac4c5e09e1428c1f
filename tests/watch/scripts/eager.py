"""A training on data that every rank reads into its memory, or maps from the file."""

import sys

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

COLUMNS = 1024


class Rows(Dataset):
    def __init__(self, path, mode):
        self.rows = np.load(path, mmap_mode="r" if mode == "map" else None)

    def __len__(self):
        return 64

    def __getitem__(self, at):
        row = torch.from_numpy(np.array(self.rows[at]))
        return row, row[:1]


def main():
    path, mode = sys.argv[1:]
    dist.init_process_group("gloo")
    data = Rows(path, mode)
    loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data))
    model = DistributedDataParallel(nn.Linear(COLUMNS, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for rows, wanted in loader:
        loss = nn.functional.mse_loss(model(rows), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
