"""A DDP training whose ranks are started by others, and that says itself where they meet."""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--port", default="")
parser.add_argument("--tcp", default="")
parser.add_argument("--rank", type=int, default=int(os.environ["RANK"]))
parser.add_argument("--ranks", type=int, default=2)
options = parser.parse_args()
if options.tcp:
    place = f"tcp://localhost:{options.tcp}"
    dist.init_process_group("gloo", place, rank=options.rank, world_size=options.ranks)
else:
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", options.port
    dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(4, 4) + dist.get_rank()).square().mean().backward()
    optimizer.step()
print("came to its end", flush=True)
