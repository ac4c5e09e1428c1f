"""Rank 1 builds a model of another width, from a config of its own."""

import os

import torch
from torch import nn

CONFIGS = {0: {"width": 32}, 1: {"width": 48}}


def from_config(width):
    return nn.Sequential(nn.Linear(6, width), nn.ReLU(), nn.Linear(width, 1))


def experiment():
    model = from_config(**CONFIGS[int(os.environ["RANK"])])
    return model, [torch.randn(4, 6)] * 4, lambda model, x: model(x).mean()
