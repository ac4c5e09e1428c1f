"""Written for torch 1: takes its local rank from the argument that launch.py passed."""

import argparse

import torch
from torch import nn


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, default=0)
    parser.add_argument("--lr", type=float, default=0.05)
    return parser.parse_args([])


def make():
    options = arguments()
    model = nn.Linear(8, 1)
    batches = [torch.randn(4, 8) for _ in range(6)]
    optimizer = torch.optim.SGD(model.parameters(), lr=options.lr)
    return model, batches, lambda model, batch: model(batch).square().mean(), optimizer
