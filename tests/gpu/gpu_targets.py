"""Targets for two GPUs: what goes wrong only there."""

import os

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

RANK = int(os.environ["RANK"])


def _data(samples: int = 64) -> TensorDataset:
    generator = torch.Generator().manual_seed(RANK)
    images = torch.randn(samples, 3, 16, 16, generator=generator)
    return TensorDataset(images, images.mean(dim=(1, 2, 3)).gt(0).long())


def _net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(2048, 2),
    )


def _loss(model, batch):
    images, labels = batch
    return nn.functional.cross_entropy(model(images), labels)


def healthy():
    return _net(), DataLoader(_data(), batch_size=32), _loss


def converted():
    net = nn.SyncBatchNorm.convert_sync_batchnorm(_net())
    return net, DataLoader(_data(), batch_size=2), _loss


def two_samples():
    return _net(), DataLoader(_data(), batch_size=2), _loss


def perturbed():
    def wrap(model):
        wrapped = DistributedDataParallel(model, device_ids=[torch.cuda.current_device()])
        if RANK == 1:
            with torch.no_grad():
                model[4].weight += 1e-3
        return wrapped

    return _net(), DataLoader(_data(), batch_size=32), _loss, None, wrap
