"""Loss goes down at first, then the curve repeats itself: every epoch looks exactly like the last."""
# finding: data/epoch-not-set
# severity: error
# ranks: 0, 1
# line: for xb, yb in loader:
# steps: 12

import math

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
torch.manual_seed(1234)

# two spirals
n = 96
t = torch.linspace(0.3, 3.0, n // 2) * math.pi
arm = torch.stack([t * torch.cos(t), t * torch.sin(t)], dim=1)
x = torch.cat([arm, -arm]) / 10
y = torch.cat([torch.zeros(n // 2), torch.ones(n // 2)])

ds = TensorDataset(x, y)
sampler = DistributedSampler(ds)
loader = DataLoader(ds, batch_size=12, sampler=sampler)

net = DDP(nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1)))
opt = torch.optim.SGD(net.parameters(), lr=0.3)

for epoch in range(6):
    total = 0.0
    for xb, yb in loader:
        opt.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(net(xb).squeeze(1), yb)
        loss.backward()
        opt.step()
        total += loss.item()
    if dist.get_rank() == 0:
        print(f"epoch {epoch}: {total / len(loader):.4f}")

dist.destroy_process_group()
