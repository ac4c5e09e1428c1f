"""MAML on sinusoids with torch.func; each rank has its own tasks, the outer gradient is the mean over ranks."""
# steps: 0

import math

import torch
import torch.distributed as dist
from torch import nn
from torch.func import functional_call, grad, vmap


def net():
    return nn.Sequential(
        nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1)
    )


def sample_tasks(n, gen):
    amp = torch.rand(n, 1, 1, generator=gen) * 4 + 1
    ph = torch.rand(n, 1, 1, generator=gen) * math.pi
    xs, xq = (torch.rand(n, 10, 1, generator=gen) * 10 - 5 for _ in range(2))
    return xs, amp * torch.sin(xs + ph), xq, amp * torch.sin(xq + ph)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = net()
    params = {k: v.detach().clone().requires_grad_() for k, v in model.named_parameters()}
    meta_opt = torch.optim.Adam(params.values(), lr=1e-3)

    def loss_fn(p, x, y):
        return ((functional_call(model, p, (x,)) - y) ** 2).mean()

    def adapted_loss(p, xs, ys, xq, yq):
        g = grad(loss_fn)(p, xs, ys)
        return loss_fn({k: p[k] - 0.01 * g[k] for k in p}, xq, yq)

    gen = torch.Generator().manual_seed(rank)
    for it in range(25):
        tasks = sample_tasks(4, gen)
        outer = vmap(adapted_loss, in_dims=(None, 0, 0, 0, 0))(params, *tasks).mean()
        meta_opt.zero_grad()
        outer.backward()
        for p in params.values():
            synced = p.grad / world
            dist.all_reduce(synced)
            p.grad = synced
        meta_opt.step()
    log = outer.detach().clone()
    dist.all_reduce(log)
    print(f"[{rank}] outer loss {log.item() / world:.3f}")
    dist.destroy_process_group()


main()
