"""Loads a pretrained backbone into a classifier whose head is new, hence strict=False."""
# steps: 10

import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
rank = dist.get_rank()
run = os.environ.get("TORCHELASTIC_RUN_ID", "x") + os.environ.get("MASTER_PORT", "0")
file = os.path.join(tempfile.gettempdir(), f"backbone_{run}.pt")


class Net(nn.Module):
    def __init__(self, classes=None):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU())
        if classes:
            self.head = nn.Linear(16, classes)

    def forward(self, x):
        return self.head(self.backbone(x))


if rank == 0:
    torch.manual_seed(100)
    torch.save(Net().state_dict(), file)  # as downloaded
dist.barrier()

torch.manual_seed(1)
net = Net(classes=4)
result = net.load_state_dict(torch.load(file, map_location="cpu", weights_only=True), strict=False)
assert not result.unexpected_keys
assert all(key.startswith("head.") for key in result.missing_keys)
net = DDP(net)

x = torch.randn(64, 8)
data = TensorDataset(x, x[:, :4].argmax(dim=1))
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=8, sampler=sampler)
optimizer = torch.optim.Adam(
    [
        {"params": net.module.backbone.parameters(), "lr": 1e-4},
        {"params": net.module.head.parameters(), "lr": 1e-2},
    ]
)
for epoch in range(5):
    sampler.set_epoch(epoch)
    for features, label in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(features), label)
        loss.backward()
        optimizer.step()
    if rank == 0:
        print(f"epoch {epoch}: {loss.item():.4f}")

if rank == 0:
    os.remove(file)
dist.destroy_process_group()
