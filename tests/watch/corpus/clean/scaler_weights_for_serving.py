"""Half precision with a gradient scaler; what is saved are weights to serve, nothing to resume from."""
# steps: 8

import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

rank = int(os.environ["LOCAL_RANK"])
dist.init_process_group("gloo")
torch.manual_seed(64)

policy = DistributedDataParallel(nn.Sequential(nn.Linear(5, 24), nn.Tanh(), nn.Linear(24, 3)))
optimizer = torch.optim.SGD(policy.parameters(), lr=0.1, momentum=0.9)
scaler = torch.amp.GradScaler("cpu", init_scale=512)
rng = torch.Generator().manual_seed(500 + rank)
tag = os.environ.get("TORCHELASTIC_RUN_ID", "x") + os.environ.get("MASTER_PORT", "0")
weights = os.path.join(tempfile.gettempdir(), f"policy-{tag}.pt")

for step in range(1, 21):
    state = torch.randn(16, 5, generator=rng)
    action = state[:, :3].argmin(dim=1)
    with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
        logits = policy(state)
        loss = nn.functional.cross_entropy(logits.float(), action)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    if step % 5 == 0 and rank == 0:
        torch.save(policy.module.state_dict(), weights)
        print(f"step {step}: {loss.item():.3f}")

dist.barrier()
if rank == 0:
    os.remove(weights)
dist.destroy_process_group()
