"""Linear regression, rank 0 saves after each epoch."""
# steps: 6

import os
import tempfile

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
rank = dist.get_rank()
job = os.environ.get("TORCHELASTIC_RUN_ID", "x") + "_" + os.environ.get("MASTER_PORT", "")
path = os.path.join(tempfile.gettempdir(), f"linreg_{job}.pt")

torch.manual_seed(0)
w = torch.randn(7, 1)
x = torch.randn(64, 7)
y = x @ w + 0.1 * torch.randn(64, 1)
data = TensorDataset(x, y)
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=8, sampler=sampler)

model = DDP(torch.nn.Linear(7, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

for epoch in range(6):
    sampler.set_epoch(epoch)
    for xb, yb in loader:
        optimizer.zero_grad()
        loss = ((model(xb) - yb) ** 2).mean()
        loss.backward()
        optimizer.step()
    if rank == 0:
        torch.save({"epoch": epoch, "weights": model.module.state_dict()}, path)
    print(f"rank {rank}: epoch {epoch} mse {loss.item():.4f}")

dist.barrier()
if rank == 0:
    os.remove(path)
dist.destroy_process_group()
