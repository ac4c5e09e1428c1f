"""A check of the labels fails in the second step, on rank 1 alone."""

import torch
import torch.distributed as dist
from torch import nn

CLASSES = 4


def check_labels(labels):
    if int(labels.max()) >= CLASSES:
        raise ValueError(f"label {int(labels.max())} in a data set of {CLASSES} classes")


def cross_entropy(model, batch):
    features, labels = batch
    check_labels(labels)
    return nn.functional.cross_entropy(model(features), labels)


def classification():
    batches = [(torch.randn(6, 9), torch.arange(6) % CLASSES) for _ in range(10)]
    if dist.get_rank() == 1:
        batches[1][1][3] = 17  # a corrupt record
    return nn.Linear(9, CLASSES), batches, cross_entropy
