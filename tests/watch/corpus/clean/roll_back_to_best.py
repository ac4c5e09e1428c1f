"""Warm restarts, each from the best weights so far."""
# steps: 10

import math
import os
import pathlib
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def checkpoint_file():
    name = f"best-{os.environ.get('TORCHELASTIC_RUN_ID', 'x')}{os.environ.get('MASTER_PORT', '')}"
    return pathlib.Path(tempfile.gettempdir(), name).with_suffix(".pt")


def evaluate(net, x, y):
    net.eval()
    with torch.inference_mode():
        value = nn.functional.cross_entropy(net(x), y).item()
    net.train()
    return value


def main(cycles=3, epochs_per_cycle=2, lr=0.3):
    dist.init_process_group(backend="gloo")
    rank = dist.get_rank()
    torch.manual_seed(17)
    x = torch.rand(112, 2) * 2 - 1
    y = (x.norm(dim=1) < 0.75).long()
    train = TensorDataset(x[:80], y[:80])
    sampler = DistributedSampler(train, shuffle=True, seed=5)
    loader = DataLoader(train, batch_size=10, sampler=sampler)

    net = nn.Sequential(nn.Linear(2, 16), nn.Softplus(), nn.Linear(16, 2))
    ddp = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=lr)
    best_file = checkpoint_file()
    best = math.inf
    for cycle in range(cycles):
        if cycle > 0:
            net.load_state_dict(torch.load(best_file), strict=False)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(
            optimizer, epochs_per_cycle * len(loader)
        )
        for epoch in range(epochs_per_cycle):
            sampler.set_epoch(cycle * epochs_per_cycle + epoch)
            for xb, yb in loader:
                loss = nn.functional.cross_entropy(ddp(xb), yb)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
            score = evaluate(net, x[80:], y[80:])
            if score < best:
                best = score
                if rank == 0:
                    torch.save(ddp.module.state_dict(), best_file)
        dist.barrier()
        for group in optimizer.param_groups:
            group["lr"] = lr
        if rank == 0:
            print(f"cycle {cycle} best {best:.4f}")
    dist.barrier()
    if rank == 0:
        best_file.unlink()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
