"""Continual training with torch.distributed.checkpoint."""
# steps: 30
# writes: files

import shutil

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn as nn
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from torch.nn.parallel import DistributedDataParallel as DDP

DIR = "dcp_k06"


class Encoder(nn.Module):
    def __init__(self, layers, d=16):
        super().__init__()
        self.emb = nn.Linear(6, d)
        self.layers = nn.ModuleList(nn.Linear(d, d) for _ in range(layers))
        self.out = nn.Linear(d, 1)

    def forward(self, x):
        x = self.emb(x)
        for l in self.layers:
            x = x + torch.tanh(l(x))
        return self.out(x)


class Waves:
    def __init__(self, rank, phase):
        self.g = torch.Generator().manual_seed(rank * 7919 + 5)
        self.phase = phase

    def __iter__(self):
        for _ in range(15):
            x = torch.rand(16, 6, generator=self.g) * 3
            yield x, torch.sin(x.sum(1, keepdim=True) + self.phase)


def loop(model, data, opt, tag):
    for i, (x, y) in enumerate(data):
        loss = (model(x) - y).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    t = loss.detach().clone()
    dist.all_reduce(t, op=dist.ReduceOp.SUM)
    if dist.get_rank() == 0:
        print(f"{tag}: last loss {t.item() / dist.get_world_size():.4f}", flush=True)


def save(model):
    dcp.save({"model": get_model_state_dict(model)}, checkpoint_id=DIR)


def load(model):
    sd = {"model": get_model_state_dict(model)}
    dcp.load(sd, checkpoint_id=DIR)
    set_model_state_dict(model, sd["model"])


def first_run(rank):
    model = DDP(Encoder(layers=4))
    opt = torch.optim.Adam(model.parameters(), 1e-2)
    loop(model, Waves(rank, 0.0), opt, "first")
    save(model)


def second_run(rank):
    # config of the new experiment
    cfg = {"layers": 4, "lr": 5e-3}
    model = DDP(Encoder(layers=cfg["layers"]))
    load(model)
    opt = torch.optim.Adam(model.parameters(), cfg["lr"])
    loop(model, Waves(rank, 0.1), opt, "second")


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    if rank == 0:
        shutil.rmtree(DIR, ignore_errors=True)
    dist.barrier()
    torch.manual_seed(77)
    first_run(rank)
    second_run(rank)
    dist.destroy_process_group()


main()
