"""A script that tells its secrets in every way a script can: arguments, variables, exceptions."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def log_in(token: str) -> None:
    raise PermissionError(f"the hub refused {token} of https://me:{os.environ['DB_PASSWORD']}@db/x")


def main() -> None:
    dist.init_process_group("gloo")
    model = DistributedDataParallel(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(6):
        model(torch.randn(2, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        if step == 3 and dist.get_rank() == 1:
            log_in(os.environ["HUB_TOKEN"])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
