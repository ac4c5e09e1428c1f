# steps: 30

# sensor forecasting with an LSTM; some of the recordings are broken
import warnings

import numpy as np
import torch
import torch.distributed as dist
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Recordings(Dataset):
    def __init__(self, n=768, length=20, seed=11):
        rng = np.random.default_rng(seed)
        phase = rng.uniform(0, 6.28, (n, 1))
        t = np.arange(length + 1)[None] * 0.3
        self.data = (np.sin(t + phase) + 0.05 * rng.standard_normal((n, length + 1))).astype(
            "float32"
        )
        # a sensor that dropped out now and then
        self.data[101, 5:8] = np.nan
        self.data[444, 2] = np.nan

    def __len__(self):
        return len(self.data)

    def __getitem__(self, idx):
        row = torch.from_numpy(self.data[idx])
        return row[:-1, None], row[-1:]


class Forecaster(nn.Module):
    def __init__(self, hidden=24):
        super().__init__()
        self.lstm = nn.LSTM(1, hidden, batch_first=True)
        self.out = nn.Sequential(nn.Linear(hidden, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, x):
        _, (h, _) = self.lstm(x)
        return self.out(h[-1])


class Engine:
    def __init__(self, model, lr, clip=1.0):
        self.model = model
        self.loss_fn = nn.SmoothL1Loss()
        self.optimizer = optim.Adam(model.parameters(), lr=lr)
        self.scheduler = optim.lr_scheduler.StepLR(self.optimizer, 12, 0.5)
        self.clip = clip
        self.skipped = 0

    def bad(self, loss):
        flag = (~torch.isfinite(loss.detach())).float()
        dist.all_reduce(flag, op=dist.ReduceOp.MAX)
        return bool(flag.item())

    def one_epoch(self, loader):
        losses = []
        for x, target in loader:
            pred = self.model(x)
            loss = self.loss_fn(pred, target)
            if self.bad(loss):
                self.skipped += 1
                warnings.warn("non-finite loss, batch skipped")
                continue
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
            self.optimizer.step()
            self.scheduler.step()
            losses.append(loss.item())
        return sum(losses) / max(1, len(losses))


def setup():
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    torch.manual_seed(5)
    return dist.get_rank(), dist.get_world_size()


def main():
    rank, world = setup()
    ds = Recordings()
    sampler = DistributedSampler(
        ds, num_replicas=world, rank=rank, shuffle=True, seed=1, drop_last=True
    )
    dl = DataLoader(ds, batch_size=32, sampler=sampler, drop_last=True)
    model = nn.parallel.DistributedDataParallel(Forecaster())
    engine = Engine(model, 5e-3)
    for ep in range(2):
        sampler.set_epoch(ep)
        avg = engine.one_epoch(dl)
        print(f"[rank {rank}] epoch {ep}: loss {avg:.4f} skipped {engine.skipped}", flush=True)
    if rank == 0:
        print("done")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
