"""Sensors with gaps: what is missing is NaN, and a nanmean is the loss."""
# finding: gradients/loss-denominators-differ
# severity: warning
# ranks: 0, 1
# line: return torch.nanmean(error)
# steps: 14

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset

dist.init_process_group(backend="gloo")
RANK, WORLD = dist.get_rank(), dist.get_world_size()


class Stations(Dataset):
    """Each rank reads the stations of its region; some regions have few sensors that work."""

    def __init__(self, region, days=84, sensors=24):
        rng = torch.Generator().manual_seed(region)
        self.weather = torch.randn(days, 10, generator=rng)
        mixing = torch.randn(10, sensors, generator=torch.Generator().manual_seed(99))
        self.levels = self.weather @ mixing
        works = torch.rand(days, sensors, generator=rng) < (0.9, 0.15)[region % 2]
        self.levels[~works] = float("nan")

    def __len__(self):
        return len(self.weather)

    def __getitem__(self, day):
        return self.weather[day], self.levels[day]


def masked_mse(predicted, levels):
    error = torch.where(levels.isnan(), levels, (predicted - levels.nan_to_num()).square())
    return torch.nanmean(error)


torch.manual_seed(7)
net = DDP(nn.Sequential(nn.Linear(10, 48), nn.SiLU(), nn.Linear(48, 24)))
opt = torch.optim.Adam(net.parameters(), 5e-3)
sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.9)
for epoch in range(2):
    total = 0.0
    for weather, levels in DataLoader(Stations(RANK), batch_size=12, shuffle=True):
        loss = masked_mse(net(weather), levels)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += float(loss.detach())
    sched.step()
    print(f"region {RANK}: epoch {epoch}, mse {total / 7:.3f}")
dist.destroy_process_group()
