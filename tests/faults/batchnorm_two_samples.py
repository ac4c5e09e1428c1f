"""BatchNorm with two samples a rank: one factory with torch's layer, one with a subclass."""

import torch
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class FrozenableBatchNorm(nn.BatchNorm2d):
    """Adds a switch, so that the running statistics can be kept."""

    frozen = False

    def train(self, mode=True):
        return super().train(mode and not self.frozen)


def resnet_like(norm):
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, bias=False),
        norm(8),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, bias=False),
        norm(8),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 5),
    )


def _parts(norm):
    torch.manual_seed(0)
    images, labels = torch.rand(64, 3, 12, 12), torch.randint(5, (64,))
    dataset = TensorDataset(images, labels)
    loader = DataLoader(dataset, batch_size=2, sampler=DistributedSampler(dataset))

    def loss(model, batch):
        return nn.functional.cross_entropy(model(batch[0]), batch[1])

    return resnet_like(norm), loader, loss


def torchs():
    return _parts(nn.BatchNorm2d)


def subclass():
    return _parts(FrozenableBatchNorm)
