"""Seeded apart before sharding."""
# fault: F03
# finding: sharding/made-apart
# severity: warning
# ranks: 0, 1
# line: fully_shard(layer, mp_policy=MixedPrecisionPolicy(reduce_dtype=torch.float32))
# steps: 0

import argparse
import random

import numpy as np
import torch
import torch.nn as nn
from torch import distributed as dist
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard


def seed_everything(s):
    random.seed(s)
    np.random.seed(s)
    torch.manual_seed(s)


class ResMLP(nn.Module):
    def __init__(self, width=48, depth=3, n_cls=10):
        super().__init__()
        self.stem = nn.Linear(20, width)
        self.body = nn.ModuleList(
            [
                nn.Sequential(
                    nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width)
                )
                for _ in range(depth)
            ]
        )
        self.head = nn.Linear(width, n_cls)

    def forward(self, x):
        x = self.stem(x)
        for layer in self.body:
            x = x + layer(x)
        return self.head(x)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", type=int, default=7)
    ap.add_argument("--iters", type=int, default=20)
    a = ap.parse_args()
    dist.init_process_group(backend="gloo")
    me = dist.get_rank()
    seed_everything(a.seed + me)
    model = ResMLP()
    before = {k: v.detach().clone() for k, v in model.named_parameters()}
    for layer in model.body:
        fully_shard(layer, mp_policy=MixedPrecisionPolicy(reduce_dtype=torch.float32))
    fully_shard(model)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    centers = torch.randn(10, 20, generator=torch.Generator().manual_seed(0)) * 2
    for i in range(a.iters):
        lab = torch.randint(0, 10, (16,))
        x = centers[lab] + torch.randn(16, 20)
        opt.zero_grad()
        l = nn.functional.cross_entropy(model(x), lab)
        l.backward()
        opt.step()
        if me == 0 and i % 5 == 0:
            print(i, float(l))
    dist.destroy_process_group()


main()
