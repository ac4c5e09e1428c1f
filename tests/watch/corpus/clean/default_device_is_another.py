"""The script's default device is another one than that of its model: what it makes says where."""
# steps: 0

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4))
teacher = nn.Linear(8, 4).requires_grad_(False)
inputs, classes = torch.randn(128, 8), torch.randint(4, (128,))
places = [range(at, at + 8) for at in range(8 * dist.get_rank(), 128, 8 * dist.get_world_size())]
ddp = DistributedDataParallel(model)
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
torch.set_default_device("meta")
for epoch in range(2):
    for each in places:
        batch, wanted = inputs[list(each)], classes[list(each)]
        loss = nn.functional.cross_entropy(ddp(batch) + teacher(batch), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    ddp.eval()
    with torch.no_grad():
        right = (ddp(inputs).argmax(1) == classes).sum()
    ddp.train()
dist.destroy_process_group()
