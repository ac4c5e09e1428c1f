"""Moved from DDP to fully_shard and the loss no longer moves at all."""
# finding: sharding/optimizer-without-gradients
# severity: error
# ranks: 0, 1
# steps: 4

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
torch.manual_seed(0)

x = torch.randn(64, 16)
y = (x @ torch.randn(16, 4)).argmax(1)
train = TensorDataset(x, y)
sampler = DistributedSampler(train)
loader = DataLoader(train, batch_size=8, sampler=sampler)

model = nn.Sequential(
    nn.Sequential(nn.Linear(16, 32), nn.ReLU()),
    nn.Sequential(nn.Linear(32, 32), nn.ReLU()),
    nn.Linear(32, 4),
)
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for part in model:
    fully_shard(part, mesh=mesh)
fully_shard(model, mesh=mesh)

for epoch in range(5):
    sampler.set_epoch(epoch)
    for inputs, labels in loader:
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        opt.step()
        opt.zero_grad()
    if dist.get_rank() == 0:
        print(f"epoch {epoch}, loss {loss.item():.4f}")

dist.destroy_process_group()
