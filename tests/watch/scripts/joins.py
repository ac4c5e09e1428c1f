"""A DDP training on shards of different lengths, in join(), that may be asked to end early."""

import argparse
import os
import signal

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

asked = []


def main(options):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    # A scheduler that needs the machine sends SIGTERM some time before it takes it.
    signal.signal(signal.SIGTERM, lambda number, _frame: asked.append(number))
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with model.join():
        for step in range(12 if rank == 0 else 4):
            loss = model(torch.randn(8, 4)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if options.preempted_in == step:
                os.kill(os.getpid(), signal.SIGTERM)
            if asked:
                break
    print(f"rank {rank} made {step + 1} steps{', saved' if asked else ''}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--preempted-in", type=int)
    main(parser.parse_args())
