"""After resuming from a checkpoint the loss jumps and never gets back to where it was."""
# finding: gradients/replicas-differ
# severity: error
# ranks: 0, 1
# steps: 6

import os
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

run = os.environ.get("TORCHELASTIC_RUN_ID", "x") + os.environ.get("MASTER_PORT", "0")
CKPT = Path(tempfile.gettempdir()) / f"resume_{run}.pt"


def build():
    return nn.Sequential(
        nn.Linear(6, 20), nn.SiLU(), nn.Linear(20, 20), nn.SiLU(), nn.Linear(20, 1)
    )


def export_last_run():
    """Stands for what the job of yesterday left."""
    with torch.random.fork_rng():
        torch.manual_seed(31)
        torch.save(build().state_dict(), CKPT)


def setup():
    dist.init_process_group("gloo")
    torch.manual_seed(8)
    if dist.get_rank() == 0:
        export_last_run()
    dist.barrier()


setup()
rank = dist.get_rank()

features = torch.randn(80, 6)
target = features.prod(dim=1, keepdim=True).tanh()
dataset = TensorDataset(features, target)
sampler = DistributedSampler(dataset)
loader = DataLoader(dataset, batch_size=10, sampler=sampler)

model = build()
model = DistributedDataParallel(model)
if rank == 0 and CKPT.exists():
    print("resuming from", CKPT)
    model.module.load_state_dict(torch.load(CKPT, map_location="cpu"))

optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
for epoch in range(4):
    sampler.set_epoch(epoch)
    for inputs, truth in loader:
        optimizer.zero_grad()
        loss = nn.functional.smooth_l1_loss(model(inputs), truth)
        loss.backward()
        optimizer.step()
    print(f"rank {rank}, epoch {epoch}: {loss.item():.5f}")

dist.barrier()
if rank == 0:
    CKPT.unlink()
dist.destroy_process_group()
