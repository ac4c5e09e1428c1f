"""AMP with GradScaler on CPU; gradients averaged by hand after unscaling."""
# steps: 0

import torch
import torch.distributed as dist
from torch import nn
from torch.amp import GradScaler, autocast


def data(rank):
    g = torch.Generator().manual_seed(rank + 10)
    while True:
        x = torch.randn(16, 12, generator=g)
        yield x


def sync_grads(model):
    for p in model.parameters():
        dist.all_reduce(p.grad)
        p.grad /= dist.get_world_size()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 1))
    opt = torch.optim.SGD(model.parameters(), 1e-4, momentum=0.9)
    scaler = GradScaler("cpu", init_scale=2.0**13, growth_interval=5)
    it = data(rank)
    for step in range(40):
        x = next(it)
        if step % 9 == 4 and rank == 1:
            x = x * 12.0  # loud recordings, all on this rank
        y = x.pow(2).sum(1, keepdim=True)
        with autocast("cpu", dtype=torch.float16):
            out = model(x)
        loss = nn.functional.mse_loss(out.float(), y)
        opt.zero_grad()
        scaler.scale(loss).backward()
        sync_grads(model)
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
    print(rank, "scale", scaler.get_scale(), "w", model[0].weight.abs().sum().item())
    dist.destroy_process_group()


main()
