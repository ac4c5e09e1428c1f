# fault: A07
# finding: data/split-differs
# severity: error
# ranks: 0, 1
# line: self.train_set, self.val_set = random_split(full, [len(full) - n_val, n_val])
# steps: 30

import argparse
import random

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler, random_split


def set_seed(seed, rank=0):
    # a different seed on every process so that dropout and augmentation differ
    random.seed(seed + rank)
    np.random.seed(seed + rank)
    torch.manual_seed(seed + rank)


class Molecules(Dataset):
    """fake fingerprints -> solubility"""

    def __init__(self, n=240, bits=32):
        rs = np.random.RandomState(99)
        self.fp = (rs.rand(n, bits) > 0.6).astype(np.float32)
        w = rs.randn(bits).astype(np.float32)
        self.y = self.fp @ w + 0.1 * rs.randn(n).astype(np.float32)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return {"fp": torch.from_numpy(self.fp[i]), "y": torch.tensor(self.y[i])}


class DataModule:
    def __init__(self, batch_size, val_frac=0.2, seed=0):
        self.bs, self.val_frac, self.seed = batch_size, val_frac, seed

    def setup(self):
        full = Molecules()
        n_val = int(len(full) * self.val_frac)
        self.train_set, self.val_set = random_split(full, [len(full) - n_val, n_val])

    def train_loader(self):
        self.train_sampler = DistributedSampler(self.train_set, shuffle=True, seed=self.seed)
        return DataLoader(
            self.train_set, batch_size=self.bs, sampler=self.train_sampler, drop_last=True
        )

    def val_loader(self):
        return DataLoader(
            self.val_set,
            batch_size=self.bs,
            sampler=DistributedSampler(self.val_set, shuffle=False),
        )


class Regressor(nn.Module):
    def __init__(self, bits=32):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(bits, 48), nn.SiLU(), nn.Dropout(0.1), nn.Linear(48, 1))

    def forward(self, x):
        return self.body(x).squeeze(-1)


@torch.no_grad()
def validate(model, loader):
    model.eval()
    se = torch.zeros(2)
    for b in loader:
        d = model(b["fp"]) - b["y"]
        se += torch.tensor([(d**2).sum(), float(len(d))])
    dist.all_reduce(se)
    model.train()
    return (se[0] / se[1]).sqrt().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=4)
    ap.add_argument("--seed", type=int, default=42)
    args = ap.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    set_seed(args.seed, rank)
    dm = DataModule(12, seed=args.seed)
    dm.setup()
    train, val = dm.train_loader(), dm.val_loader()
    model = DDP(Regressor())
    opt = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for ep in range(args.epochs):
        dm.train_sampler.set_epoch(ep)
        for b in train:
            opt.zero_grad()
            ((model(b["fp"]) - b["y"]) ** 2).mean().backward()
            opt.step()
        rmse = validate(model, val)
        if rank == 0:
            print(f"epoch {ep} val rmse {rmse:.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
