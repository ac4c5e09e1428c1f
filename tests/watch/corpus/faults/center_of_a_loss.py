"""A loss has a center of targets in a buffer, which each rank moves by its own batches: the loss is in no DDP."""
# finding: buffers/go-apart
# severity: warning
# ranks: 0, 1
# line: loss = criterion(student(inputs), teacher(inputs))
# steps: 0

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class CenteredLoss(nn.Module):
    """Compares with targets around a center that it moves a little with each batch."""

    def __init__(self, width):
        super().__init__()
        self.register_buffer("center", torch.zeros(1, width))

    def forward(self, outputs, targets):
        wanted = torch.softmax((targets - self.center) / 0.1, dim=-1)
        loss = -(wanted * torch.log_softmax(outputs, dim=-1)).sum(-1).mean()
        self.move(targets)
        return loss

    @torch.no_grad()
    def move(self, targets):
        mean = targets.mean(0, keepdim=True)
        self.center = 0.9 * self.center + 0.1 * mean


dist.init_process_group("gloo")
torch.manual_seed(0)
student = DistributedDataParallel(nn.Linear(16, 8))
teacher = nn.Linear(16, 8).requires_grad_(False)
criterion = CenteredLoss(8)
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
torch.manual_seed(1 + dist.get_rank())
for step in range(16):
    inputs = torch.randn(32, 16) + 0.5 * dist.get_rank()
    loss = criterion(student(inputs), teacher(inputs))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
