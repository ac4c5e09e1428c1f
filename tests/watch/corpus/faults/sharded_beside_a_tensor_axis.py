"""The ranks of a tensor-parallel group agree on a model, each group on another one, and FSDP shards them as one."""
# fault: F03
# finding: sharding/made-apart
# severity: warning
# ranks: 0, 2
# line: fully_shard(model, mesh=mesh["data"])
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
torch.manual_seed(dist.get_rank())
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
