"""The learning rate of each step stands in an array of numpy's, whose numbers are no floats of Python's."""
# steps: 0

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 12
dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(nn.Linear(8, 1))
optimizer = torch.optim.AdamW(model.parameters())
rates = 0.01 * np.cos(np.linspace(0, 1.5, STEPS)).astype(np.float32)
torch.manual_seed(dist.get_rank())
for step in range(STEPS):
    for group in optimizer.param_groups:
        group["lr"] = rates[step]
        group["weight_decay"] = np.float64(0.1)
    optimizer.zero_grad()
    model(torch.randn(4, 8)).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
