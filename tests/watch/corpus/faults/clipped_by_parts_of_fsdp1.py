"""FSDP1's gradients are clipped by torch.nn.utils, which has the norm of this rank's parts alone."""
# finding: gradients/scaled-apart
# severity: warning
# ranks: 0, 1
# line: optimizer.step()
# steps: 0

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))
model = FullyShardedDataParallel(model, device_id=torch.device("cpu"), use_orig_params=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
torch.manual_seed(dist.get_rank())
for step in range(10):
    inputs = torch.randn(8, 32)
    optimizer.zero_grad()
    nn.functional.mse_loss(model(inputs), inputs).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.05)
    optimizer.step()
dist.destroy_process_group()
