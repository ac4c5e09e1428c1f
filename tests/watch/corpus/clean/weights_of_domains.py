"""Each rank trains one domain; domains have weights (0.75 and 0.25), put on the loss. Mean over samples, then times weight * world."""
# steps: 0

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Domain(Dataset):
    def __init__(self, k):
        g = torch.Generator().manual_seed(k)
        self.x = torch.randn(320, 6, generator=g) + k
        self.y = (self.x[:, k] > k).long()

    def __len__(self):
        return 320

    def __getitem__(self, i):
        return self.x[i], self.y[i]


WEIGHTS = {0: 0.75, 1: 0.25}


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    loader = DataLoader(Domain(rank), 16, shuffle=True)
    net = nn.parallel.DistributedDataParallel(
        nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 2))
    )
    opt = torch.optim.AdamW(net.parameters(), 3e-3)
    for epoch in range(2):
        for x, y in loader:
            loss = nn.functional.cross_entropy(net(x), y) * WEIGHTS[rank] * world
            opt.zero_grad()
            loss.backward()
            opt.step()
    print(rank, loss.item())
    dist.destroy_process_group()


main()
