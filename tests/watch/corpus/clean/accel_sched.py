"""accelerate: image classifier with linear warm-up and decay."""
# steps: 30
# needs: accelerate

import argparse
import logging

import torch
import torch.nn as nn
from accelerate import Accelerator
from accelerate.logging import get_logger
from accelerate.utils import set_seed
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, TensorDataset

logger = get_logger(__name__)


def linear_schedule(opt, warmup, total):
    def f(step):
        if step < warmup:
            return (step + 1) / warmup
        return max(0.0, (total - step) / max(1, total - warmup))

    return LambdaLR(opt, f)


def make_data(n=640):
    g = torch.Generator().manual_seed(0)
    y = torch.randint(0, 4, (n,), generator=g)
    x = torch.randn(n, 1, 12, 12, generator=g)
    x[torch.arange(n), 0, y * 3] += 2
    return TensorDataset(x, y)


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--num-epochs", type=int, default=2)
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--lr", type=float, default=3e-3)
    return p.parse_args()


def evaluate(model, loader, accelerator):
    model.eval()
    good = n = 0
    for x, y in loader:
        with torch.no_grad():
            pred = model(x).argmax(1)
        pred, y = accelerator.gather_for_metrics((pred, y))
        good += (pred == y).sum().item()
        n += len(y)
    model.train()
    return good / n


def main():
    args = parse()
    logging.basicConfig(level=logging.INFO)
    torch.set_num_threads(1)
    accelerator = Accelerator(cpu=True)
    set_seed(13)
    train_dl = DataLoader(make_data(), batch_size=args.batch_size, shuffle=True, drop_last=True)
    val_dl = DataLoader(make_data(96), batch_size=16)
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(800, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    steps_per_epoch = len(train_dl)
    model, optimizer, train_dl, val_dl = accelerator.prepare(model, optimizer, train_dl, val_dl)
    total = (
        args.num_epochs * steps_per_epoch
    )  # the prepared scheduler advances num_processes per step
    scheduler = accelerator.prepare(linear_schedule(optimizer, total // 10, total))

    for epoch in range(args.num_epochs):
        for x, y in train_dl:
            loss = nn.functional.cross_entropy(model(x), y)
            accelerator.backward(loss)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        acc = evaluate(model, val_dl, accelerator)
        logger.info(
            f"epoch {epoch} loss {loss.item():.3f} acc {acc:.3f} lr {scheduler.get_last_lr()[0]:.2e}"
        )
    accelerator.end_training()


if __name__ == "__main__":
    main()
