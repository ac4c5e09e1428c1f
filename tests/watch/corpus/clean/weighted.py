# steps: 30

import random

import numpy as np
import torch
import torch.distributed as dist
from torch import nn, optim
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

SEED = 1337
EPOCHS = 3
BATCH = 16


def seed_all(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def make_fraud_table(n=320, d=12):
    """imbalanced binary table: ~8% positives"""
    rng = np.random.RandomState(0)
    x = rng.randn(n, d).astype("float32")
    y = (x[:, 0] + x[:, 1] + 0.3 * rng.randn(n) > 2.0).astype("float32")
    return torch.from_numpy(x), torch.from_numpy(y)


def class_weights(y):
    pos = (y == 1).sum().clamp(min=1)
    neg = (y == 0).sum()
    w = torch.where(y == 1, 1.0 / pos, 1.0 / neg)
    return w.double()


class RankWeightedSampler(WeightedRandomSampler):
    """one global draw of weighted indices, each rank takes its stride of it"""

    def __init__(self, weights, total):
        super().__init__(
            weights, total, replacement=True, generator=torch.Generator().manual_seed(SEED)
        )

    def __iter__(self):
        return iter(list(super().__iter__())[dist.get_rank() :: dist.get_world_size()])

    def __len__(self):
        return self.num_samples // dist.get_world_size()


def get_train_loader(x, y):
    ds = TensorDataset(x, y)
    sampler = RankWeightedSampler(class_weights(y), len(ds))
    return DataLoader(ds, batch_size=BATCH, sampler=sampler, drop_last=True)


class MLP(nn.Sequential):
    def __init__(self, d, h=32):
        super().__init__(
            nn.Linear(d, h), nn.GELU(), nn.Dropout(0.1), nn.Linear(h, h), nn.GELU(), nn.Linear(h, 1)
        )


@torch.no_grad()
def evaluate(model, x, y):
    model.eval()
    p = torch.sigmoid(model(x).squeeze(1))
    model.train()
    tp = ((p > 0.5) & (y == 1)).sum().float()
    prec = tp / (p > 0.5).sum().clamp(min=1)
    rec = tp / (y == 1).sum().clamp(min=1)
    return prec.item(), rec.item()


def run():
    dist.init_process_group(backend="gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    seed_all(SEED)
    torch.set_num_threads(1)

    x, y = make_fraud_table()
    cut = int(0.8 * len(x))
    x_tr, y_tr, x_va, y_va = x[:cut], y[:cut], x[cut:], y[cut:]
    loader = get_train_loader(x_tr, y_tr)

    net = DistributedDataParallel(MLP(x.shape[1]))
    opt = optim.AdamW(net.parameters(), lr=3e-3, weight_decay=0.01)
    crit = nn.BCEWithLogitsLoss()

    for epoch in range(EPOCHS):
        running = 0.0
        for step, (xb, yb) in enumerate(loader):
            opt.zero_grad(set_to_none=True)
            loss = crit(net(xb).squeeze(1), yb)
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            opt.step()
            running += loss.item()
        t = torch.tensor([running / (step + 1)])
        dist.all_reduce(t)
        prec, rec = evaluate(net.module, x_va, y_va)
        if rank == 0:
            print(
                f"[{epoch}] loss={t.item() / world:.4f} precision={prec:.3f} recall={rec:.3f}",
                flush=True,
            )
    dist.destroy_process_group()


if __name__ == "__main__":
    run()
