"""All ranks make the same model, split over one axis of a mesh and sharded over the other."""
# steps: 0
# processes: 4

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))
parallelize_module(model, mesh["tensor"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
fully_shard(model, mesh=mesh["data"])
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
draws = torch.Generator().manual_seed(mesh["data"].get_local_rank())
for step in range(10):
    inputs = torch.randn(8, 32, generator=draws)
    optimizer.zero_grad()
    nn.functional.mse_loss(model(inputs), inputs).backward()
    optimizer.step()
dist.destroy_process_group()
