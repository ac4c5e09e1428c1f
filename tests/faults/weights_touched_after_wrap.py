"""Rank 1 re-initializes its classifier after DDP has copied the weights of rank 0."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(12, 24)
        self.head = nn.Linear(24, 3)

    def forward(self, x):
        return self.head(torch.relu(self.stem(x)))


def wrap(model):
    ddp = DistributedDataParallel(model)
    if dist.get_rank() == 1:
        # "fresh head for fine-tuning", under a condition that only this rank meets
        nn.init.trunc_normal_(ddp.module.head.weight, std=0.02)
    return ddp


def main():
    torch.manual_seed(42)
    model = Classifier()
    dataset = TensorDataset(torch.randn(128, 12), torch.randint(0, 3, (128,)))
    sampler = DistributedSampler(dataset, shuffle=True)
    loader = DataLoader(dataset, batch_size=16, sampler=sampler)
    criterion = nn.CrossEntropyLoss()

    def loss_fn(model, batch):
        inputs, targets = batch
        return criterion(model(inputs), targets)

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return model, loader, loss_fn, optimizer, wrap
