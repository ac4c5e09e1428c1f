"""PP x FSDP2 (2 x 2): both stages are the same class, seeded alike, so they begin equal and rightly go apart"""
# steps: 0
# processes: 4

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


class Stage(nn.Module):
    def __init__(self, d=12):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(d), nn.Linear(d, d), nn.GELU()) for _ in range(2)
        )

    def forward(self, x):
        for l in self.layers:
            x = x + l(x)
        return x


def main():
    dist.init_process_group("gloo")
    m = init_device_mesh("cpu", (2, 2), mesh_dim_names=("pp", "dp"))
    st, dp = m["pp"].get_local_rank(), m["dp"]
    peer = (dist.get_rank() + 2) % 4
    torch.manual_seed(0)
    net = Stage()
    for l in net.layers:
        fully_shard(l, mesh=dp["dp"] if False else dp)
    fully_shard(net, mesh=dp)
    opt = torch.optim.AdamW(net.parameters(), 3e-3)
    g = torch.Generator().manual_seed(dp.get_local_rank())
    for it in range(16):
        x = torch.randn(8, 12, generator=g)
        opt.zero_grad()
        if st == 0:
            h = net(x)
            dist.send(h.detach(), peer)
            d = torch.empty_like(h)
            dist.recv(d, peer)
            h.backward(d)
        else:
            h = torch.empty(8, 12)
            dist.recv(h, peer)
            h.requires_grad_()
            (net(h) - x.flip(1)).pow(2).mean().backward()
            dist.send(h.grad, peer)
        opt.step()
    print(
        dist.get_rank(), "stage", st, net.layers[0][1].weight.full_tensor().sum().item(), flush=True
    )
    dist.destroy_process_group()


main()
