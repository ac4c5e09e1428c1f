"""Uneven inputs with Join, on DDP and ZeRO."""
# steps: 0

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.distributed.optim import ZeroRedundancyOptimizer as ZeRO
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    n = 96 + 40 * rank
    x = torch.randn(n, 4)
    loader = DataLoader(TensorDataset(x, x.abs().sum(1, keepdim=True)), batch_size=8, shuffle=True)
    model = DDP(nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 1)))
    opt = ZeRO(model.parameters(), optimizer_class=torch.optim.Adam, lr=1e-2)
    for epoch in range(2):
        seen = 0
        with Join([model, opt]):
            for bx, by in loader:
                opt.zero_grad()
                nn.functional.mse_loss(model(bx), by).backward()
                opt.step()
                seen += len(bx)
        t = torch.tensor(seen)
        dist.all_reduce(t)
        if rank == 0:
            print(epoch, int(t))
    dist.destroy_process_group()


main()
