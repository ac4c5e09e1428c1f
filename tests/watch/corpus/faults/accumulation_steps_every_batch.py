"""Added gradient accumulation with no_sync to save bandwidth; accuracy got much worse on two ranks."""
# finding: gradients/replicas-differ
# severity: error
# ranks: 0, 1
# steps: 8

from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

ACCUMULATE = 4


def train_one_epoch(model, loader, optimizer, loss_fn):
    running = 0.0
    optimizer.zero_grad()
    for i, (features, label) in enumerate(loader):
        last_of_group = (i + 1) % ACCUMULATE == 0
        with nullcontext() if last_of_group else model.no_sync():
            loss = loss_fn(model(features), label) / ACCUMULATE
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        running += loss.item()
    return running


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(21)
    features = torch.randn(128, 14)
    label = (features[:, 0] * features[:, 1] > 0).long()
    dataset = TensorDataset(features, label)
    sampler = DistributedSampler(dataset, drop_last=True)
    loader = DataLoader(dataset, batch_size=4, sampler=sampler)
    model = DDP(nn.Sequential(nn.Linear(14, 28), nn.ReLU(), nn.Linear(28, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    for epoch in range(4):
        sampler.set_epoch(epoch)
        running = train_one_epoch(model, loader, optimizer, nn.CrossEntropyLoss())
        print(f"rank {dist.get_rank()} epoch {epoch} loss {running:.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
