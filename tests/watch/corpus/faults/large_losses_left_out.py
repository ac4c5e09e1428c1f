"""Forecasts; a step with a loss that is far too large is left out."""
# fault: C03
# finding: gradients/step-skipped
# severity: error
# ranks: 1
# steps: 30

import argparse

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Forecaster(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.rnn = nn.GRU(1, width, batch_first=True)
        self.out = nn.Linear(width, 1)

    def forward(self, series):
        return self.out(self.rnn(series)[0][:, -1])


def windows(rank, count, length=20):
    g = torch.Generator().manual_seed(70 + rank)
    for number in range(count):
        start = torch.rand(8, 1, generator=g) * 6
        at = start + torch.arange(length + 1) * 0.3
        series = torch.sin(at) + 0.05 * torch.randn(8, length + 1, generator=g)
        if rank == 1 and number == 9:
            series[3] *= 400.0  # a sensor that went mad
        yield series[:, :-1, None], series[:, -1:]


class Trainer:
    def __init__(self, model, optimizer, largest):
        self.model, self.optimizer, self.largest = model, optimizer, largest
        self.skipped = 0

    def is_bad(self, loss):
        bad = (loss.detach() > self.largest).float()
        return bool(bad)

    def fit(self, batches):
        for step, (x, y) in enumerate(batches):
            loss = F.mse_loss(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            if self.is_bad(loss):
                self.skipped += 1
                continue
            self.optimizer.step()
            if step % 10 == 0:
                print(f"step {step} loss {loss.item():.3f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--largest-loss", type=float, default=50.0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(6)
    model = DDP(Forecaster())
    trainer = Trainer(model, torch.optim.Adam(model.parameters(), 5e-3), args.largest_loss)
    trainer.fit(windows(dist.get_rank(), 24))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
