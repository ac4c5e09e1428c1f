"""Rank 1 reads a line that is no JSON: the error comes from inside the standard library."""

import json

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset

LINES = [f'{{"x": [{number}.0, 1.0, 2.0]}}' for number in range(40)]


class JsonLines(Dataset):
    def __init__(self, rank):
        self.lines = LINES[rank::2]
        if rank == 1:
            self.lines[9] = '{"x": [7.0, 1.'

    def __len__(self):
        return len(self.lines)

    def __getitem__(self, index):
        return torch.tensor(json.loads(self.lines[index])["x"])


def from_files():
    loader = DataLoader(JsonLines(dist.get_rank()), batch_size=8)
    return nn.Linear(3, 1), loader, lambda model, batch: model(batch).square().mean()
