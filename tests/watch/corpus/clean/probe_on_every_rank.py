"""Each rank keeps a linear probe of its own for monitoring; features are detached, accuracies are averaged; never saved."""
# steps: 0

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class VICReg(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 16))

    def forward(self, a, b):
        x, y = self.enc(a), self.enc(b)
        var = lambda z: F.relu(1 - (z.var(0) + 1e-4).sqrt()).mean()
        return 25 * F.mse_loss(x, y) + 25 * (var(x) + var(y)), x.detach()


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    x = torch.randn(512, 12)
    ds = TensorDataset(x, (x[:, 0] > 0).long())
    s = DistributedSampler(ds)
    net = nn.parallel.DistributedDataParallel(VICReg())
    probe = nn.Linear(16, 2)
    opt = torch.optim.AdamW(net.parameters(), 1e-3)
    probe_opt = torch.optim.Adam(probe.parameters(), 1e-2)
    torch.manual_seed(rank)
    for e in range(3):
        s.set_epoch(e)
        hits = torch.zeros(())
        for bx, by in DataLoader(ds, 16, sampler=s):
            loss, h = net(bx + 0.1 * torch.randn_like(bx), bx + 0.1 * torch.randn_like(bx))
            opt.zero_grad()
            loss.backward()
            opt.step()
            out = probe(h)
            probe_opt.zero_grad()
            F.cross_entropy(out, by).backward()
            probe_opt.step()
            hits += (out.argmax(1) == by).sum()
        dist.all_reduce(hits)
        if rank == 0:
            print(e, hits.item() / len(ds))
    dist.destroy_process_group()


main()
