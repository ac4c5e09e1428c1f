"""Resume: weights are broadcast by DDP, the optimizer comes from the file."""
# steps: 0
# writes: files

import os
import pathlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

CKPT = pathlib.Path("last.ckpt")


def make():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 3))


def save(step, model, opt):
    if dist.get_rank() == 0:
        tmp = CKPT.with_suffix(".tmp")
        torch.save({"step": step, "model": model.state_dict(), "opt": opt.state_dict()}, tmp)
        os.replace(tmp, CKPT)
    dist.barrier()


def run(first, last):
    model = make()
    opt = torch.optim.Adam(model.parameters(), 0.01)
    start = 0
    if first:
        start = first
        on = True
        if on:
            ck = torch.load(CKPT, weights_only=True)
            model.load_state_dict(ck["model"])
            opt.load_state_dict(ck["opt"])
    ddp = DDP(model)
    g = torch.Generator().manual_seed(start * 10 + dist.get_rank())
    for step in range(start, last):
        x = torch.randn(16, 10, generator=g)
        y = x[:, :3].argmax(1)
        opt.zero_grad()
        nn.functional.cross_entropy(ddp(x), y).backward()
        opt.step()
    save(last, model, opt)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    if not CKPT.exists():
        if dist.get_rank() == 0:
            m = make()
            o = torch.optim.Adam(m.parameters(), 0.01)
            for _ in range(30):
                o.zero_grad()
                x = torch.randn(16, 10)
                nn.functional.cross_entropy(m(x), x[:, :3].argmax(1)).backward()
                o.step()
            torch.save({"step": 30, "model": m.state_dict(), "opt": o.state_dict()}, CKPT)
        dist.barrier()
    run(30, 60)
    dist.destroy_process_group()
