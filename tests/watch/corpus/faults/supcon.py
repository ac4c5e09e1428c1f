"""Supervised contrastive pre-training + linear classifier trained jointly."""
# fault: G12
# finding: gradients/gathered-without-gradient
# severity: warning
# ranks: 0, 1
# steps: 30

import math
import sys

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


@torch.no_grad()
def concat_all_gather(tensor):
    """gathers from all ranks and concatenates (from the MoCo repo)"""
    out = tensor.new_empty((tensor.size(0) * dist.get_world_size(), *tensor.shape[1:]))
    dist.all_gather_into_tensor(out, tensor.contiguous())
    return out


class SupConLoss(nn.Module):
    def __init__(self, temperature=0.2):
        super().__init__()
        self.t = temperature

    def forward(self, feats, labels):
        n = feats.size(0)
        sim = feats @ feats.T / self.t
        eye = torch.eye(n, dtype=torch.bool)
        sim = sim.masked_fill(eye, -1e4)
        logp = sim - torch.logsumexp(sim, 1, keepdim=True)
        pos = (labels[:, None] == labels[None]) & ~eye
        return -((logp * pos).sum(1) / pos.sum(1).clamp(min=1)).mean()


class Encoder(nn.Module):
    def __init__(self, in_dim=40, dim=24, classes=6):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(in_dim, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, 48), nn.ReLU()
        )
        self.projector = nn.Sequential(nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, dim))
        self.classifier = nn.Linear(48, classes)

    def forward(self, x):
        h = self.body(x)
        z = F.normalize(self.projector(h), dim=1)
        return z, self.classifier(h)


class ViewsDataset(torch.utils.data.Dataset):
    def __init__(self, n=600, dim=40, classes=6):
        g = torch.Generator().manual_seed(1)
        self.centers = torch.randn(classes, dim, generator=g)
        self.y = torch.randint(0, classes, (n,), generator=g)
        self.x = self.centers[self.y] + 0.8 * torch.randn(n, dim, generator=g)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        x = self.x[i]
        aug = lambda: x * (torch.rand_like(x) > 0.2) + 0.1 * torch.randn_like(x)
        return aug(), aug(), self.y[i]


class Lars(torch.optim.SGD):
    """sgd with trust ratio, simplified"""

    @torch.no_grad()
    def step(self, closure=None):
        for g in self.param_groups:
            for p in g["params"]:
                if p.grad is not None and p.ndim > 1:
                    r = p.norm() / (p.grad.norm() + 1e-8)
                    p.grad.mul_((0.02 * r).clamp(max=1.0))
        return super().step(closure)


def losses(z, logits, y, crit):
    all_z = concat_all_gather(z)
    all_y = concat_all_gather(y)
    con = crit(all_z, all_y)
    return con, F.cross_entropy(logits, y)


def main(steps_per_epoch=18, epochs=2):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    ds = ViewsDataset()
    sampler = torch.utils.data.DistributedSampler(ds, drop_last=True)
    loader = torch.utils.data.DataLoader(ds, batch_size=16, sampler=sampler, drop_last=True)
    net = nn.parallel.DistributedDataParallel(Encoder(), find_unused_parameters=True)
    opt = Lars(net.parameters(), lr=0.3, momentum=0.9)
    crit = SupConLoss()
    torch.manual_seed(rank + 500)  # augmentations differ
    it = 0
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for a, b, y in loader:
            z, logits = net(torch.cat([a, b]))
            con, ce = losses(z, logits, y.repeat(2), crit)
            loss = con + 0.5 * ce
            opt.zero_grad()
            loss.backward()
            opt.step()
            for g in opt.param_groups:
                g["lr"] = 0.15 * (1 + math.cos(math.pi * it / (epochs * len(loader))))
            it += 1
        if rank == 0:
            print(f"epoch {epoch}: supcon {con.item():.4f} ce {ce.item():.4f}")
            sys.stdout.flush()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
