# Ranks count their epochs from numbers of their own, for other orders.
# fault: A01
# finding: data/split-differs
# severity: error
# ranks: 0, 1
# line: sampler = DistributedSampler(dataset, seed=args.seed)
# says: epoch differs (rank 0: 0, rank 1: 3)
# steps: 20

import argparse

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def loader_of(args):
    g = torch.Generator().manual_seed(3)
    x = torch.randn(160, 10, generator=g)
    dataset = TensorDataset(x, x.sum(1, keepdim=True).tanh())
    sampler = DistributedSampler(dataset, seed=args.seed)
    return DataLoader(dataset, args.batch, sampler=sampler, num_workers=args.workers)


def main(args):
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    rank = dist.get_rank()
    loader = loader_of(args)
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(10, 8), nn.Linear(8, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=args.rate)
    for epoch in range(args.epochs):
        loader.sampler.set_epoch(rank * args.epochs + epoch)
        if rank == 0:
            print(f"epoch {epoch} of {args.epochs}")
        for x, y in loader:
            loss = F.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--batch", type=int, default=10)
    parser.add_argument("--rate", type=float, default=0.05)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--workers", type=int, default=0)
    main(parser.parse_args())
