"""SyncBatchNorm in a job that runs on CPUs."""

import torch
from torch import nn


def tabular():
    model = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))
    model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    batches = [(torch.randn(32, 6), torch.randn(32, 1)) for _ in range(10)]
    return model, batches, lambda model, batch: nn.MSELoss()(model(batch[0]), batch[1])
