"""A callback of ours saves on the main process only, by a file that is put in place when whole."""
# steps: 24
# writes: files

import functools
import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main_process_only(function):
    @functools.wraps(function)
    def guarded(*args):
        if dist.get_rank() == 0:
            return function(*args)
        return None

    return guarded


class Checkpoints:
    def __init__(self, folder):
        self.folder = folder
        os.makedirs(folder, exist_ok=True)

    def write(self, value, name):
        path = os.path.join(self.folder, name)
        with tempfile.NamedTemporaryFile(dir=self.folder, delete=False) as file:
            torch.save(value, file)
        os.replace(file.name, path)

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
