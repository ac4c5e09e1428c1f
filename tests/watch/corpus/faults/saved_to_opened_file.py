"""A callback of ours saves "on the main process only", as it did on the old cluster."""
# fault: K02
# finding: checkpoint/written-by-several-ranks
# severity: error
# ranks: 0, 1
# line: torch.save(value, file)
# steps: 24
# writes: files

import functools
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main_process_only(function):
    @functools.wraps(function)
    def guarded(*args):
        if int(os.environ.get("SLURM_PROCID", 0)) == 0:
            return function(*args)
        return None

    return guarded


class Checkpoints:
    def __init__(self, folder):
        self.folder = folder
        os.makedirs(folder, exist_ok=True)

    def write(self, value, name):
        with open(os.path.join(self.folder, name), "wb") as file:
            torch.save(value, file)

    def on_epoch_end(self, model, optimizer, epoch):
        self.write(torch.get_rng_state(), f"rng_{dist.get_rank()}.pt")
        self.on_main(model, optimizer, epoch)

    @main_process_only
    def on_main(self, model, optimizer, epoch):
        state = {
            "epoch": epoch,
            "model": model.module.state_dict(),
            "optimizer": optimizer.state_dict(),
        }
        self.write(state, "last.pth")


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(256, 20), torch.randint(0, 4, (256,)))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=16, sampler=sampler)
    model = DDP(nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 4)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    checkpoints = Checkpoints("checkpoints")
    for epoch in range(4):
        sampler.set_epoch(epoch)
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        checkpoints.on_epoch_end(model, optimizer, epoch)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
