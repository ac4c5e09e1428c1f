"""An average of the weights is made before DDP hands out rank 0's: it begins with each rank's own, and evaluates."""
# finding: gradients/teacher-differs
# severity: warning
# ranks: 0, 1
# line: error = nn.functional.mse_loss(average(inputs), inputs.sum(1, keepdim=True))
# steps: 0

import copy

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Average(nn.Module):
    """An average of a model's weights, which evaluates."""

    def __init__(self, model):
        super().__init__()
        self.module = copy.deepcopy(model).eval()

    def forward(self, inputs):
        return self.module(inputs)

    @torch.no_grad()
    def update(self, model):
        for own, other in zip(self.module.parameters(), model.parameters()):
            own.lerp_(other, 0.1)


dist.init_process_group("gloo")
torch.manual_seed(42 + dist.get_rank())
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
average = Average(model)
ddp = DistributedDataParallel(model)
optimizer = torch.optim.AdamW(ddp.parameters(), lr=1e-3)
for step in range(16):
    inputs = torch.randn(8, 16)
    optimizer.zero_grad()
    nn.functional.mse_loss(ddp(inputs), inputs.sum(1, keepdim=True)).backward()
    optimizer.step()
    average.update(ddp.module)
    if step % 4 == 3:
        with torch.no_grad():
            error = nn.functional.mse_loss(average(inputs), inputs.sum(1, keepdim=True))
        dist.all_reduce(error)
dist.destroy_process_group()
