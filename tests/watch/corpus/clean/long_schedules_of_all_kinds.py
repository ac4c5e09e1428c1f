"""Warm-up, cosine and decay: one after the other, at once, in batches, by a measure, by the epoch."""
# steps: 24

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.optim import lr_scheduler as lrs
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

ACCUMULATE = 2


class WarmUp(lrs.LRScheduler):
    """Goes up to the given rate, and leaves the rest to another schedule."""

    def __init__(self, optimizer, steps, after):
        self.steps = steps
        self.after = after
        super().__init__(optimizer)

    def get_lr(self):
        return [base * min(1.0, self.last_epoch / self.steps) for base in self.base_lrs]

    def step(self, epoch=None):
        if self.last_epoch > self.steps:
            self.after.step()
            self.last_epoch += 1
        else:
            super().step(epoch)


class Run:
    def __init__(self, name, loader, sampler, epochs=4):
        self.name, self.loader, self.sampler, self.epochs = name, loader, sampler, epochs
        self.model = DDP(nn.Sequential(nn.Linear(9, 18), nn.Tanh(), nn.Linear(18, 1)))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2)
        batches = epochs * len(loader)
        updates = batches // ACCUMULATE
        decay = lrs.ExponentialLR(self.optimizer, 0.98)
        self.by_epoch = lrs.ReduceLROnPlateau(self.optimizer, patience=1)
        self.by_update = lrs.SequentialLR(
            self.optimizer,
            [
                lrs.LinearLR(self.optimizer, 0.2, total_iters=2),
                lrs.CosineAnnealingLR(self.optimizer, updates - 2),
            ],
            milestones=[2],
        )
        self.also_by_update = WarmUp(self.optimizer, 3, lrs.ChainedScheduler([decay]))
        # planned in batches, as it is stepped
        self.by_batch = lrs.LinearLR(self.optimizer, 1.0, 0.1, total_iters=batches)

    def fit(self):
        for epoch in range(self.epochs):
            self.sampler.set_epoch(epoch)
            total = torch.zeros(1)
            for i, (x, y) in enumerate(self.loader):
                loss = nn.functional.mse_loss(self.model(x), y) / ACCUMULATE
                loss.backward()
                total += loss.detach()
                self.by_batch.step()
                if i % ACCUMULATE == ACCUMULATE - 1:
                    self.optimizer.step()
                    self.optimizer.zero_grad()
                    self.by_update.step()
                    self.also_by_update.step()
            dist.all_reduce(total)
            self.by_epoch.step(total.item())
        print(f"{self.name}: {total.item():.4f}")


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(31)
    x = torch.randn(256, 9)
    data = TensorDataset(x, x.sin().mean(1, keepdim=True))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    Run(f"rank {dist.get_rank()}", loader, sampler).fit()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
