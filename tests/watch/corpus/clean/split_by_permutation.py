# Tabular data, a quarter of it held out.
# steps: 30

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Subset, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def read_data(count=160):
    g = torch.Generator().manual_seed(9)
    x = torch.randn(count, 12, generator=g)
    return TensorDataset(x, x[:, :3].argmax(1))


class DataModule:
    def __init__(self, rank, world, held_out=0.25):
        self.rank, self.world = rank, world
        everything = read_data()
        order = np.random.default_rng(77).permutation(len(everything))
        cut = int(len(order) * held_out)
        self.held_out = Subset(everything, order[:cut])
        self.train = Subset(everything, order[cut:])

    def train_loader(self):
        self.sampler = DistributedSampler(self.train, self.world, self.rank, shuffle=True)
        return DataLoader(self.train, batch_size=8, sampler=self.sampler, drop_last=True)

    def val_loader(self):
        return DataLoader(self.held_out, batch_size=20)


def evaluate(net, loader):
    net.eval()
    right = torch.zeros(2)
    with torch.no_grad():
        for x, y in loader:
            right += torch.tensor([(net(x).argmax(1) == y).sum(), len(y)])
    net.train()
    return (right[0] / right[1]).item()


def fit():
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    rank = dist.get_rank()
    torch.manual_seed(1 + rank)
    np.random.seed(1 + rank)
    data = DataModule(rank, dist.get_world_size())
    loader = data.train_loader()
    net = nn.Sequential(nn.Linear(12, 24), nn.GELU(), nn.Linear(24, 3))
    ddp = nn.parallel.DistributedDataParallel(net)
    sgd = torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(4):
        data.sampler.set_epoch(epoch)
        for x, y in loader:
            sgd.zero_grad()
            F.cross_entropy(ddp(x), y).backward()
            sgd.step()
        accuracy = evaluate(net, data.val_loader())
        print(f"[{rank}] epoch {epoch} accuracy {accuracy:.2f}")
    dist.destroy_process_group()


fit()
