"""A DDP training that starts its own ranks, in the ways that scripts do."""

import argparse
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def parsed():
    parser = argparse.ArgumentParser()
    parser.add_argument("--by", default="spawn")
    parser.add_argument("--port", default="29517")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--world", type=int, default=2)
    parser.add_argument("--fault", default="")
    return parser.parse_args()


def prepare(_number):
    """A process that is no rank."""


def main(rank, options):
    if options.fault == "raise-early" and rank == 1:
        raise OSError("no such dataset")
    if options.by == "spawn":
        os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", options.port
        dist.init_process_group("gloo", rank=rank, world_size=options.world)
    else:
        place = f"tcp://127.0.0.1:{options.port}"
        dist.init_process_group("gloo", place, rank=rank, world_size=options.world)
    train(rank, options)
    dist.destroy_process_group()
    print(f"rank {rank} came to its end", flush=True)


def train(rank, options):
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(64, 8), torch.randn(64, 1))
    sampler = None if options.fault == "same-data" else DistributedSampler(data)
    loader = DataLoader(data, batch_size=4, sampler=sampler, shuffle=sampler is None)
    model = DistributedDataParallel(nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, (inputs, wanted) in enumerate(loader):
        if rank == 1 and step == 2 and options.fault == "raise":
            raise ValueError("no such label")
        if rank == 1 and step == 2 and options.fault == "die":
            os._exit(9)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), wanted).backward()
        optimizer.step()


def by_hand(options):
    context = mp.get_context("fork")
    ranks = [context.Process(target=main, args=(each, options)) for each in range(options.ranks)]
    for each in ranks:
        each.start()
    for each in ranks:
        each.join()


if __name__ == "__main__":
    options = parsed()
    if options.fault == "raise-first":
        raise ValueError("no such configuration")
    mp.start_processes(prepare, nprocs=1, start_method="fork")
    if options.by == "spawn":
        mp.spawn(main, args=(options,), nprocs=options.ranks)
    elif options.by == "fork":
        mp.start_processes(main, args=(options,), nprocs=options.ranks, start_method="fork")
    elif options.by == "hand":
        by_hand(options)
    print("the script came to its end", flush=True)
