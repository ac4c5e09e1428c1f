"""Rank 0 alone loads a checkpoint, after the model was wrapped."""

import torch
from torch import nn
from torch.distributed import get_rank
from torch.nn.parallel import DistributedDataParallel

from ddpcheck.target.target import Target


def pretrained():
    torch.manual_seed(7)
    donor = nn.Sequential(nn.Embedding(32, 8), nn.Linear(8, 32))
    return donor.state_dict()


def resume(model):
    ddp = DistributedDataParallel(model)
    if get_rank() == 0:
        ddp.module.load_state_dict(pretrained())
    return ddp


def language_model():
    model = nn.Sequential(nn.Embedding(32, 8), nn.Linear(8, 32))
    tokens = [torch.randint(0, 32, (4, 9)) for _ in range(6)]

    def next_token(model, batch):
        logits = model(batch[:, :-1])
        return nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())

    return Target(model=model, loader=tokens, loss=next_token, wrap=resume)
