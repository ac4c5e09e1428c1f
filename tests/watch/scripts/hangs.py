"""A DDP training that comes to a standstill in the way that is asked for, or is slow."""

import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

# Longer than a rank stands still before it tells so.
SLOW_S = 9.0


def validate(model, rank, fault):
    if fault == "evaluates-on-rank-0" and rank == 0:
        model.eval()
        with torch.no_grad():
            print(f"validation: {model(torch.randn(8, 4)).mean():.3f}")
        model.train()
    if fault == "slow" and rank == 0:
        time.sleep(SLOW_S)
    if fault == "both-send":
        features = torch.randn(1 << 20)
        dist.send(features, 1 - rank)
        dist.recv(features, 1 - rank)
    dist.barrier()


def main(fault):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(256, 4))
    # Its buffers are broadcast in each forward pass.
    norm = nn.BatchNorm1d(8) if fault == "evaluates-on-rank-0" else nn.LayerNorm(8)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 8), norm, nn.Linear(8, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sampler = DistributedSampler(data)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for step, (inputs,) in enumerate(DataLoader(data, 16, sampler=sampler)):
            loss = model(inputs).square().mean()
            if fault == "skips-on-rank-1" and rank == 1 and (epoch, step) == (0, 1):
                continue
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if epoch == 0:
            validate(model, rank, fault)
    print("came to its end")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
