"""SimCLR on small images: NT-Xent over all ranks with a differentiable all_gather, BatchNorm projector."""
# steps: 30
# writes: files

import logging
import math

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class GatherLayer(torch.autograd.Function):
    """all_gather whose backward sums the gradients of all ranks and keeps the own slice"""

    @staticmethod
    def forward(ctx, x):
        out = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(out, x.contiguous())
        return tuple(out)

    @staticmethod
    def backward(ctx, *grads):
        g = torch.stack(grads)
        dist.all_reduce(g)
        return g[dist.get_rank()]


class TwoViews(Dataset):
    """blurry textures of 5 kinds; two random crops and noise as augmentations"""

    def __init__(self, n, seed, augment=True):
        g = torch.Generator().manual_seed(seed)
        self.y = torch.randint(0, 5, (n,), generator=g)
        yy, xx = torch.meshgrid(torch.arange(14.0), torch.arange(14.0), indexing="ij")
        f = 0.4 + 0.35 * self.y[:, None, None]
        ph = torch.rand(n, 1, 1, generator=g) * 6.28
        self.x = (torch.sin(f * xx + ph) * torch.cos(f * yy)).unsqueeze(1)
        self.augment = augment

    def __len__(self):
        return len(self.y)

    def view(self, img):
        if not self.augment:
            return img[:, 1:13, 1:13]
        i, j = torch.randint(0, 3, (2,)).tolist()
        v = img[:, i : i + 12, j : j + 12]
        if torch.rand(()) < 0.5:
            v = v.flip(-1)
        return v * (0.8 + 0.4 * torch.rand(())) + 0.1 * torch.randn_like(v)

    def __getitem__(self, i):
        return self.view(self.x[i]), self.view(self.x[i]), self.y[i]


class SimCLR(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(1, 8, 3, 2, 1),
            nn.ReLU(),
            nn.Conv2d(8, 16, 3, 2, 1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
        )
        self.projector = nn.Sequential(
            nn.Linear(64, 32, bias=False), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, dim)
        )

    def forward(self, a, b):
        z = self.projector(self.backbone(torch.cat([a, b])))
        return F.normalize(z, dim=1).chunk(2)


class NTXent(nn.Module):
    def __init__(self, temperature=0.2):
        super().__init__()
        self.t = temperature

    def forward(self, za, zb):
        n, rank = za.shape[0], dist.get_rank()
        all_a, all_b = torch.cat(GatherLayer.apply(za)), torch.cat(GatherLayer.apply(zb))
        keys = torch.cat([all_a, all_b])
        N = all_a.shape[0]
        sim_a, sim_b = za @ keys.T / self.t, zb @ keys.T / self.t
        own = torch.arange(n) + rank * n
        sim_a[torch.arange(n), own] = -math.inf  # itself
        sim_b[torch.arange(n), own + N] = -math.inf
        return 0.5 * (F.cross_entropy(sim_a, own + N) + F.cross_entropy(sim_b, own))


def lars_like_groups(model):
    reg, noreg = [], []
    for name, p in model.named_parameters():
        (noreg if p.ndim == 1 else reg).append(p)
    return [{"params": reg, "weight_decay": 1e-3}, {"params": noreg, "weight_decay": 0.0}]


@torch.no_grad()
def knn_accuracy(model, train, test, rank, world, k=5):
    """each rank classifies its share of the test set"""
    for b in model.buffers():
        dist.broadcast(b, 0)
    model.eval()
    feats = F.normalize(model.backbone(torch.stack([train.view(i) for i in train.x])), dim=1)
    mine = range(rank, len(test), world)
    q = F.normalize(model.backbone(torch.stack([test.view(test.x[i]) for i in mine])), dim=1)
    votes = train.y[(q @ feats.T).topk(k).indices].mode(1).values
    hit = torch.stack([(votes == test.y[list(mine)]).sum(), torch.tensor(len(mine))])
    dist.all_reduce(hit)
    model.train()
    return (hit[0] / hit[1]).item()


def main():
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    net = SimCLR()
    torch.manual_seed(1000 + rank)  # augmentations differ
    ddp = DDP(net)
    ds = TwoViews(320, 1)
    plain, test = TwoViews(100, 2, augment=False), TwoViews(51, 3, augment=False)
    sampler = DistributedSampler(ds, shuffle=True, drop_last=True)
    loader = DataLoader(ds, batch_size=32, sampler=sampler, drop_last=True)
    crit = NTXent()
    opt = torch.optim.SGD(lars_like_groups(ddp), lr=0.1, momentum=0.9, nesterov=True)
    for epoch in range(4):
        sampler.set_epoch(epoch)
        m = torch.zeros(())
        for a, b, _ in loader:
            za, zb = ddp(a, b)
            loss = crit(za, zb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            m += loss.detach()
        dist.all_reduce(m)
        acc = knn_accuracy(ddp.module, plain, test, rank, world)
        if rank == 0:
            logging.info("epoch %d loss %.4f knn %.4f", epoch, m.item() / world / len(loader), acc)
            print(
                f"epoch {epoch} loss {m.item() / world / len(loader):.4f} knn {acc:.4f}", flush=True
            )
    print(
        f"rank {rank} w {sum(p.double().abs().sum() for p in ddp.parameters()).item():.6f}",
        flush=True,
    )
    if rank == 0:
        torch.save({"backbone": ddp.module.backbone.state_dict()}, "backbone.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
