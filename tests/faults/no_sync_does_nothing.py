"""A subclass of DDP overrides no_sync, and its version does not hold anything back."""

from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class PatchedDDP(DistributedDataParallel):
    """Counts the micro-steps of gradient accumulation."""

    micro_steps = 0

    @contextmanager
    def no_sync(self):
        self.micro_steps += 1
        yield


def accumulate():
    torch.manual_seed(11)
    model = nn.Sequential(nn.Linear(7, 14), nn.SiLU(), nn.Linear(14, 7))
    torch.manual_seed(dist.get_rank())
    data = torch.randn(40, 7)
    loader = torch.utils.data.DataLoader(data, batch_size=5)
    return model, loader, lambda net, x: (net(x) - x).pow(2).mean(), None, PatchedDDP
