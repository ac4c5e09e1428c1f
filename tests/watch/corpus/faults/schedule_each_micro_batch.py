"""With gradient accumulation the cosine goes down and up again within a few steps."""
# finding: gradients/schedule-too-fast
# severity: warning
# ranks: 0, 1
# line: cosine.step()
# steps: 8

import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

EPOCHS, ACCUMULATE = 5, 4

dist.init_process_group("gloo")
torch.manual_seed(17)

images = torch.rand(128, 1, 10, 10)
labels = (images.mean(dim=(1, 2, 3)) > 0.5).long()
dataset = TensorDataset(images, labels)
sampler = DistributedSampler(dataset, shuffle=True)
loader = DataLoader(dataset, batch_size=4, sampler=sampler)

net = DDP(
    nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 2)
    )
)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, nesterov=True)
cosine = torch.optim.lr_scheduler.CosineAnnealingLR(
    optimizer, T_max=EPOCHS * len(loader) // ACCUMULATE
)

for epoch in range(EPOCHS):
    sampler.set_epoch(epoch)
    for i, (image, label) in enumerate(loader):
        is_update = (i + 1) % ACCUMULATE == 0
        with contextlib.nullcontext() if is_update else net.no_sync():
            loss = nn.functional.cross_entropy(net(image), label) / ACCUMULATE
            loss.backward()
        if is_update:
            optimizer.step()
            optimizer.zero_grad()
        cosine.step()
    if dist.get_rank() == 0:
        print(f"epoch {epoch} loss {loss.item() * ACCUMULATE:.4f} lr {cosine.get_last_lr()}")

dist.destroy_process_group()
