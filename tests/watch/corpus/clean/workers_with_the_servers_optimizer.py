"""asynchronous parameter server: workers are served in the order they come (recv from any), unequal numbers of pushes"""
# steps: 0
# processes: 3

import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.utils import parameters_to_vector as p2v
from torch.nn.utils import vector_to_parameters as v2p


def main():
    dist.init_process_group("gloo")
    r, w = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    net = nn.Linear(6, 1)
    n = p2v(net.parameters()).numel()
    opt = torch.optim.SGD(net.parameters(), 0.02, momentum=0.5)
    if r == 0:
        alive = w - 1
        while alive:
            buf = torch.empty(n + 1)
            src = dist.recv(buf)
            if buf[-1] < 0:
                alive -= 1
                continue
            o = 0
            for p in net.parameters():
                p.grad = buf[o : o + p.numel()].view_as(p).clone()
                o += p.numel()
            opt.step()
            dist.send(p2v(net.parameters()).detach(), src)
    else:
        g = torch.Generator().manual_seed(r)
        for i in range(8 + 6 * r):
            x = torch.randn(4, 6, generator=g)
            net.zero_grad()
            (net(x) - x.sum(1, keepdim=True)).pow(2).mean().backward()
            time.sleep(0.01 * r)
            dist.send(torch.cat([*(p.grad.flatten() for p in net.parameters()), torch.zeros(1)]), 0)
            v = torch.empty(n)
            dist.recv(v, 0)
            v2p(v, net.parameters())
        dist.send(torch.full((n + 1,), -1.0), 0)
    dist.barrier()
    print(r, "ok", flush=True)
    dist.destroy_process_group()


main()
