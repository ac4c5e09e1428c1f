# steps: 30

# regression; each process trains on its own rows and validates on all of them after each epoch
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Subset, TensorDataset

ROWS = 104
BATCH = 4


def rows_of(rank, world):
    """the rows of this process: as many for each"""
    share = ROWS // world
    return range(rank * share, (rank + 1) * share)


def validate(model, loader):
    model.eval()
    total = torch.zeros(())
    with torch.no_grad():
        for x, y in loader:
            total += nn.functional.mse_loss(model.module(x), y)
    dist.all_reduce(total)
    model.train()
    return total.item() / len(loader) / dist.get_world_size()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(11)
    x = torch.randn(ROWS, 12)
    data = TensorDataset(x, x.sum(dim=1, keepdim=True).tanh())
    own = Subset(data, rows_of(dist.get_rank(), dist.get_world_size()))
    train = DataLoader(own, batch_size=BATCH, shuffle=True)
    every = DataLoader(data, batch_size=26)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(12, 24), nn.Tanh(), nn.Linear(24, 1)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for epoch in range(2):
        for x, y in train:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
        loss = validate(model, every)
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: validation loss {loss:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
