"""Targets of a script that was written for one GPU: checks read the script, so it is its own."""

import torch
from gpu_targets import _data, _loss, _net
from torch import nn
from torch.utils.data import DataLoader


def batch_on_gpu_0():
    """Every rank's loss sends the batch to cuda:0, as a copied one-GPU script does."""

    def loss(model, batch):
        images, labels = (each.to("cuda:0") for each in batch)
        return nn.functional.cross_entropy(model(images), labels)

    return _net(), DataLoader(_data(), batch_size=32), loss


def context_on_gpu_0():
    """Every rank keeps a tensor on GPU 0, as torch.load without map_location does."""
    net = _net()
    net.keep = [torch.zeros(1 << 20, device="cuda:0")]
    return net, DataLoader(_data(), batch_size=32), _loss


def model_on_gpu_0():
    return _net().to("cuda:0"), DataLoader(_data(), batch_size=32), _loss
