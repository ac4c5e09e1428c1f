"""Signals with augmentation per rank; the split has a seed of its own."""
# steps: 6

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset, random_split

rank = int(os.environ["RANK"])
dist.init_process_group("gloo")
torch.manual_seed(2000 + rank)  # so that augmentations differ between ranks

fixed = torch.Generator().manual_seed(0)
signals = torch.randn(100, 1, 20, generator=fixed)
kind = (signals.diff(dim=-1).abs().mean(dim=(1, 2)) > 1.12).float()
dataset = TensorDataset(signals, kind)
train_set, val_set = random_split(dataset, [80, 20], generator=torch.Generator().manual_seed(7))

train_sampler = DistributedSampler(train_set, shuffle=True)
train_loader = DataLoader(train_set, batch_size=10, sampler=train_sampler)
val_loader = DataLoader(val_set, batch_size=20)


def augment(signal):
    signal = signal + 0.05 * torch.randn_like(signal)
    return signal.flip(-1) if torch.rand(()) < 0.5 else signal


net = DDP(
    nn.Sequential(
        nn.Conv1d(1, 8, 3),
        nn.ReLU(),
        nn.AdaptiveAvgPool1d(4),
        nn.Flatten(),
        nn.Linear(32, 1),
    )
)
criterion = nn.BCEWithLogitsLoss()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)

for epoch in range(4):
    train_sampler.set_epoch(epoch)
    net.train()
    for signal, label in train_loader:
        optimizer.zero_grad()
        loss = criterion(net(augment(signal)).squeeze(1), label)
        loss.backward()
        optimizer.step()
    net.eval()
    with torch.no_grad():
        hits = sum(((net(s).squeeze(1) > 0) == (k > 0.5)).sum() for s, k in val_loader)
    if rank == 0:
        print(f"epoch {epoch}: loss {loss.item():.3f}, accuracy {hits.item() / len(val_set):.2f}")

dist.destroy_process_group()
