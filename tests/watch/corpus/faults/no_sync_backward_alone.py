"""Four micro-batches a step, synchronized only once - though the links are as busy as before."""
# finding: gradients/forward-outside-no-sync
# severity: warning
# ranks: 0, 1
# line: logits = model(images)
# steps: 4

import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

ACCUMULATE = 4


def convnet():
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.GroupNorm(2, 8),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(8 * 16, 10),
    )


def train(model, loader, optimizer):
    optimizer.zero_grad()
    for i, (images, labels) in enumerate(loader):
        logits = model(images)
        loss = nn.functional.cross_entropy(logits, labels) / ACCUMULATE
        is_last = (i + 1) % ACCUMULATE == 0
        with contextlib.nullcontext() if is_last else model.no_sync():
            loss.backward()
        if is_last:
            optimizer.step()
            optimizer.zero_grad()
    return loss.item() * ACCUMULATE


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    dataset = TensorDataset(torch.randn(256, 1, 12, 12), torch.randint(10, (256,)))
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=8, sampler=sampler, drop_last=True)
    model = DDP(convnet())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(4):
        sampler.set_epoch(epoch)
        loss = train(model, loader, optimizer)
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: {loss:.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
