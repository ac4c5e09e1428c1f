"""One optimizer holds others, which make its steps: its own groups have no learning rate."""
# steps: 0

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard


class Container(torch.optim.Optimizer):
    def __init__(self, parts):
        self.inner = [torch.optim.AdamW(each.parameters(), lr=1e-3) for each in parts]
        super().__init__([p for each in parts for p in each.parameters()], {})

    def step(self):
        for each in self.inner:
            each.step()


dist.init_process_group("gloo")
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))
fully_shard(model)
optimizer = Container([model])
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer.inner[0], lambda step: 1 - step / 20)
draws = torch.Generator().manual_seed(dist.get_rank())
for step in range(12):
    inputs = torch.randn(8, 32, generator=draws)
    optimizer.zero_grad()
    nn.functional.mse_loss(model(inputs), inputs).backward()
    optimizer.step()
    schedule.step()
dist.destroy_process_group()
