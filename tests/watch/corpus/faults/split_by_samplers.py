# House prices, folds by scikit-learn's habit: one permutation, two samplers.
# fault: A07
# finding: data/split-differs
# severity: error
# ranks: 0, 1
# line: for x, y in loader:
# steps: 40

import argparse

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, SubsetRandomSampler


class Houses(Dataset):
    def __init__(self, count=240):
        rng = np.random.RandomState(0)
        self.features = rng.randn(count, 8).astype(np.float32)
        self.price = self.features @ rng.randn(8).astype(np.float32)

    def __len__(self):
        return len(self.price)

    def __getitem__(self, i):
        return torch.from_numpy(self.features[i]), torch.tensor(self.price[i])


def make_loaders(dataset, args):
    order = list(range(len(dataset)))
    np.random.shuffle(order)
    cut = int(args.valid * len(order))
    valid, train = order[:cut], order[cut:]
    mine = train[args.rank :: args.world]
    return (
        DataLoader(dataset, args.batch, sampler=SubsetRandomSampler(mine), drop_last=True),
        DataLoader(dataset, args.batch, sampler=SubsetRandomSampler(valid)),
    )


@torch.no_grad()
def validate(net, loader):
    net.eval()
    total = count = 0
    for x, y in loader:
        total += (net(x).squeeze(1) - y).square().sum().item()
        count += len(y)
    net.train()
    return total / count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--valid", type=float, default=0.25)
    parser.add_argument("--seed", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    args.rank, args.world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(args.seed)
    np.random.seed(args.seed + args.rank)
    train, valid = make_loaders(Houses(), args)
    net = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for epoch in range(5):
        for x, y in train:
            optimizer.zero_grad()
            (net(x).squeeze(1) - y).square().mean().backward()
            optimizer.step()
        error = validate(net.module, valid)
        if args.rank == 0:
            print(f"epoch {epoch}: validation error {error:.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
