# fault: A03
# finding: data/uneven-epochs
# severity: error
# ranks: any
# steps: 30
# writes: files

# regression on sensor windows; every process reads its own part of the recordings
import datetime

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, Subset


class Windows(Dataset):
    def __init__(self, length=1050, window=50):
        t = torch.arange(length, dtype=torch.float32) / 10.0
        self.signal = (
            torch.sin(t)
            + 0.5 * torch.sin(2.7 * t)
            + 0.05 * torch.randn(length, generator=torch.Generator().manual_seed(5))
        )
        self.window = window

    def __len__(self):
        return (len(self.signal) - self.window) // 10 + 1 - 4

    def __getitem__(self, i):
        s = i * 10
        w = self.signal[s : s + self.window]
        return w[:-1].unsqueeze(-1), w[-1:]


class GRUForecaster(nn.Module):
    def __init__(self, hidden=16):
        super().__init__()
        self.gru = nn.GRU(1, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 1)

    def forward(self, x):
        h, _ = self.gru(x)
        return self.out(h[:, -1])


def partition(dataset, rank, world):
    """indices rank, rank+world, ... : no two processes see the same window"""
    idx = list(range(rank, len(dataset), world))
    return Subset(dataset, idx)


class EMA:
    def __init__(self, module, decay=0.95):
        self.decay = decay
        self.shadow = {k: v.detach().clone() for k, v in module.state_dict().items()}

    @torch.no_grad()
    def update(self, module):
        for k, v in module.state_dict().items():
            self.shadow[k].mul_(self.decay).add_(v, alpha=1 - self.decay)


def fit(model, loader, epochs, rank, lr=1e-2):
    opt = torch.optim.Adam(model.parameters(), lr=lr)
    ema = EMA(model.module)
    for epoch in range(epochs):
        losses = []
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            ema.update(model.module)
            losses.append(loss.item())
        mean = torch.tensor(sum(losses) / len(losses))
        dist.all_reduce(mean)
        if rank == 0:
            print(f"epoch {epoch}: mse {mean.item() / dist.get_world_size():.4f}", flush=True)
    return ema


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(minutes=10))
    rank = dist.get_rank()
    torch.manual_seed(100)
    data = Windows()
    part = partition(data, rank, dist.get_world_size())
    if rank == 0:
        print(f"{len(data)} windows, {len(part)} on this rank")
    loader = DataLoader(part, batch_size=8, shuffle=True)
    model = DDP(GRUForecaster())
    ema = fit(model, loader, epochs=3, rank=rank)
    if rank == 0:
        torch.save(ema.shadow, "forecaster_ema.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
