"""One dataset is dealt out to ranks that begin with rank 0's weights, and nobody averages the gradients."""
# finding: gradients/replicas-differ
# severity: warning
# ranks: 0, 1
# line: optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
# steps: 0

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def average(model):
    for each in model.parameters():
        dist.all_reduce(each.grad)
        each.grad /= dist.get_world_size()


dist.init_process_group("gloo")
inputs = torch.randn(128, 16, generator=torch.Generator().manual_seed(0))
data = TensorDataset(inputs, inputs.sum(1, keepdim=True))
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=8, sampler=sampler)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
with torch.no_grad():
    for each in model.parameters():
        dist.broadcast(each, 0)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for epoch in range(2):
    sampler.set_epoch(epoch)
    total = torch.zeros(1)
    for given, wanted in loader:
        loss = nn.functional.mse_loss(model(given), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach()
    dist.all_reduce(total)
    if dist.get_rank() == 0:
        print(epoch, total.item() / len(loader) / dist.get_world_size())
dist.destroy_process_group()
