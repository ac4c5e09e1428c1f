"""A range test for the learning rate takes one pass over the loader; then training begins."""
# steps: 60

import copy
import math

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def find_lr(model, loader, low=1e-4, high=1.0):
    """Raise the rate batch by batch; return a tenth of that of the lowest loss."""
    before = copy.deepcopy(model.state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=low)
    lowest, best = math.inf, low
    for number, (x, y) in enumerate(loader):
        rate = low * (high / low) ** (number / (len(loader) - 1))
        optimizer.param_groups[0]["lr"] = rate
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        everywhere = loss.detach().clone()
        dist.all_reduce(everywhere)
        if everywhere.item() < lowest:
            lowest, best = everywhere.item(), rate
    model.load_state_dict(before)
    return best / 10


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(31)
    x = torch.rand(320, 6)
    data = TensorDataset(x, (x[:, :1] * 3).sin() + x[:, 1:2])
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    model = DDP(nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 1)))
    rate = find_lr(model, loader)
    if dist.get_rank() == 0:
        print(f"learning rate {rate:.2e}")
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
