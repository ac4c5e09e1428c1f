"""Each rank makes a model of its own, which is sharded in one piece: its parameters stay gathered after a forward pass."""
# fault: F03
# finding: sharding/made-apart
# severity: warning
# ranks: 0, 1
# line: fully_shard(model, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16))
# steps: 0

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))
fully_shard(model, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
draws = torch.Generator().manual_seed(dist.get_rank())
for step in range(10):
    inputs = torch.randn(8, 32, generator=draws)
    optimizer.zero_grad()
    nn.functional.mse_loss(model(inputs).float(), inputs).backward()
    optimizer.step()
dist.destroy_process_group()
