"""A training by accelerate, whose schedule is planned before or after it has cut the loader."""

import sys

import torch
from accelerate import Accelerator
from torch import nn
from torch.optim.lr_scheduler import LinearLR
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 3


def main():
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    x = torch.randn(160, 6)
    loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=8, shuffle=True)
    whole = EPOCHS * len(loader)
    model = nn.Linear(6, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    total = whole if sys.argv[1] == "before" else EPOCHS * len(loader)
    scheduler = accelerator.prepare(LinearLR(optimizer, 1.0, 0.0, total_iters=total))
    for _ in range(EPOCHS):
        for inputs, wanted in loader:
            loss = nn.functional.mse_loss(model(inputs), wanted)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            scheduler.step()


if __name__ == "__main__":
    main()
