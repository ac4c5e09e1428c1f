"""The example of the README: a small regression."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

from ddpcheck.target.target import Target


def loss(model, batch):
    inputs, wanted = batch
    return nn.functional.mse_loss(model(inputs), wanted)


def factory():
    torch.manual_seed(0)
    inputs = torch.randn(256, 16)
    data = TensorDataset(inputs, inputs.sum(dim=1, keepdim=True))
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
    return Target(
        model=model,
        loader=DataLoader(data, batch_size=8, sampler=DistributedSampler(data)),
        loss=loss,
        optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3),
    )
