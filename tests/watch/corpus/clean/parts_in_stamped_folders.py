"""Sharded checkpoints of a small MoE-less LM; every run gets its own time-stamped folder."""
# steps: 30
# writes: files

import datetime as dt
import os

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn as nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, Dataset, DistributedSampler

SCRATCH = os.environ.get("SCRATCH", "runs")


def new_run_dir(name):
    stamp = [dt.datetime.now().strftime("%m%d-%H%M%S-%f")]
    dist.broadcast_object_list(stamp, src=0)
    path = os.path.join(SCRATCH, f"{name}-{stamp[0]}")
    os.makedirs(path, exist_ok=True)
    return path


class Arithmetic(Dataset):
    """a + b = c as tokens"""

    def __len__(self):
        return 320

    def __getitem__(self, i):
        a, b = divmod(i, 18)
        return torch.tensor([a, 18, b, 19]), torch.tensor((a + b) % 20)


class LM(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.embed = nn.Embedding(20, d)
        self.l1 = nn.Linear(4 * d, 2 * d)
        self.l2 = nn.Linear(2 * d, 20)

    def forward(self, ids):
        return self.l2(torch.relu(self.l1(self.embed(ids).flatten(1))))


class Run:
    def __init__(self):
        self.dir = new_run_dir("arith")
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        self.model = LM()
        for layer in (self.model.l1, self.model.l2):
            fully_shard(layer, mesh=mesh)
        fully_shard(self.model, mesh=mesh)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=3e-3)
        ds = Arithmetic()
        self.sampler = DistributedSampler(ds, shuffle=True)
        self.loader = DataLoader(ds, batch_size=16, sampler=self.sampler)

    def save(self, epoch):
        target = os.path.join(self.dir, f"epoch_{epoch}")
        dcp.save(
            {"model": self.model.state_dict(), "optim": self.opt.state_dict()}, checkpoint_id=target
        )

    def train(self, epochs):
        for epoch in range(epochs):
            self.sampler.set_epoch(epoch)
            for x, y in self.loader:
                loss = nn.functional.cross_entropy(self.model(x), y)
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
            if dist.get_rank() == 0:
                print(f"epoch {epoch} loss {loss.item():.3f} -> {self.dir}", flush=True)
            self.save(epoch)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(6)
    Run().train(3)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
