"""A DDP training on GPUs that comes to a standstill in the way that is asked for, or is slow."""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

# Longer than a rank stands still before it tells so.
SLOW_S = 9.0


def validate(model: nn.Module, rank: int, fault: str) -> None:
    """Evaluate, in which a rank goes astray."""
    inputs = torch.randn(8, 64, device="cuda")
    if fault == "evaluates-on-rank-0" and rank == 0:
        with torch.no_grad():
            print(f"validation: {model(inputs).mean().item():.3f}")
    if fault == "slow" and rank == 0:
        time.sleep(SLOW_S)
    if fault == "both-receive":
        dist.recv(inputs, 1 - rank)
        print(f"received {inputs.mean().item():.3f}")
    if fault == "other-order":
        total = torch.zeros(1, device="cuda")
        if rank == 0:
            dist.all_reduce(total)
        else:
            dist.broadcast(torch.zeros(4096, device="cuda"), 0)
        print(f"total {total.item():.3f}")
    dist.barrier()


def main(fault: str) -> None:
    """Train two epochs, with an evaluation after the first."""
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    torch.manual_seed(0)
    # Its buffers are broadcast in each forward pass.
    net = nn.Sequential(nn.Linear(64, 128), nn.BatchNorm1d(128), nn.Linear(128, 1)).cuda()
    model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loss = torch.zeros(())
    for epoch in range(2):
        for step in range(6):
            if fault == "skips-on-rank-1" and rank == 1 and (epoch, step) == (0, 3):
                continue
            loss = model(torch.randn(16, 64, device="cuda")).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"loss {loss.item():.3f}")
        if epoch == 0:
            validate(model, rank, fault)
    print("came to its end")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
