# fault: P01
# finding: performance/needless-search
# severity: info
# ranks: 0, 1
# line: model = DDP(Net(), find_unused_parameters=True)
# steps: 30

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv = nn.Conv2d(c, c, 3, padding=1)
        self.norm = nn.GroupNorm(2, c)

    def forward(self, x):
        return x + torch.relu(self.norm(self.conv(x)))


class Net(nn.Module):
    def __init__(self, c=12, classes=5):
        super().__init__()
        self.stem = nn.Conv2d(3, c, 3, stride=2, padding=1)
        self.blocks = nn.ModuleList(Block(c) for _ in range(3))
        self.skip = nn.Linear(c, classes)
        self.head = nn.Linear(c, classes)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        pooled = x.mean((2, 3))
        out = self.head(pooled)
        out = out + self.skip(pooled)
        return out


dist.init_process_group("gloo")
torch.set_num_threads(1)
torch.manual_seed(2)
images = torch.rand(200, 3, 16, 16, generator=torch.Generator().manual_seed(8))
labels = (images.mean((1, 2, 3)) * 400).long() % 5
dataset = TensorDataset(images, labels)
sampler = DistributedSampler(dataset)
loader = DataLoader(dataset, batch_size=10, sampler=sampler)
model = DDP(Net(), find_unused_parameters=True)
opt = torch.optim.SGD(model.parameters(), lr=0.05)
criterion = nn.CrossEntropyLoss()
for epoch in range(3):
    sampler.set_epoch(epoch)
    for x, y in loader:
        opt.zero_grad()
        criterion(model(x), y).backward()
        opt.step()
dist.destroy_process_group()
