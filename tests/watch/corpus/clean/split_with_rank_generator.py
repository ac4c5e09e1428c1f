"""House prices, split alike on both ranks, dropout seeded by rank."""
# steps: 6

from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler, random_split


@dataclass(frozen=True)
class Settings:
    seed: int = 1337
    records: int = 96
    batch: int = 6
    epochs: int = 4
    dropout: float = 0.1


class Houses(Dataset):
    def __init__(self, count):
        g = torch.Generator().manual_seed(404)
        self.rooms = torch.randint(1, 8, (count,), generator=g)
        self.area = torch.rand(count, 3, generator=g)
        self.price = self.rooms * 0.3 + self.area.sum(1) + 0.1 * torch.randn(count, generator=g)

    def __len__(self):
        return len(self.price)

    def __getitem__(self, index):
        return {"rooms": self.rooms[index], "area": self.area[index], "price": self.price[index]}


class PriceModel(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.rooms = nn.Embedding(8, 6)
        self.body = nn.Sequential(
            nn.Linear(9, 24), nn.ReLU(), nn.Dropout(dropout), nn.Linear(24, 1)
        )

    def forward(self, record):
        return self.body(torch.cat([self.rooms(record["rooms"]), record["area"]], dim=1)).squeeze(1)


def make_loaders(cfg, rank):
    records = Houses(cfg.records)
    gen = torch.Generator().manual_seed(cfg.seed)
    train_part, held_out = random_split(records, [0.75, 0.25], generator=gen)
    sampler = DistributedSampler(train_part, seed=cfg.seed)
    train = DataLoader(train_part, cfg.batch, sampler=sampler)
    held = DataLoader(held_out, cfg.batch, sampler=DistributedSampler(held_out, shuffle=False))
    return train, held


def held_out_error(model, loader):
    model.eval()
    with torch.no_grad():
        errors = [F.l1_loss(model.module(record), record["price"]) for record in loader]
    mean = torch.stack(errors).mean()
    dist.all_reduce(mean)
    return mean.item() / dist.get_world_size()


def main(cfg):
    rank = dist.get_rank()
    train, held = make_loaders(cfg, rank)
    torch.manual_seed(cfg.seed + rank)  # dropout
    model = DistributedDataParallel(PriceModel(cfg.dropout))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.01)
    for epoch in range(cfg.epochs):
        train.sampler.set_epoch(epoch)
        model.train()
        for record in train:
            optimizer.zero_grad()
            F.mse_loss(model(record), record["price"]).backward()
            optimizer.step()
        error = held_out_error(model, held)
        if rank == 0:
            print(f"epoch {epoch}: held-out error {error:.3f}")


if __name__ == "__main__":
    dist.init_process_group("gloo")
    try:
        main(Settings())
    finally:
        dist.destroy_process_group()
