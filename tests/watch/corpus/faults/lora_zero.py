"""Adapter fine-tuning: the trunk stays as it is, the optimizer gets only the
adapters and the classifier. The optimizer state is partitioned (ZeRO-1)."""
# fault: F10
# finding: sharding/optimizer-of-more
# severity: warning
# ranks: 0, 1
# steps: 30

import logging
import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

logging.basicConfig(
    format="%(asctime)s r" + os.environ.get("RANK", "0") + " %(message)s", level=logging.INFO
)
log = logging.getLogger("adapters")


class Adapter(nn.Module):
    def __init__(self, base: nn.Linear, rank=4, alpha=8.0):
        super().__init__()
        self.base = base
        self.down = nn.Parameter(torch.randn(rank, base.in_features) / rank)
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))
        self.scale = alpha / rank

    def forward(self, x):
        return self.base(x) + self.scale * (x @ self.down.T) @ self.up.T


class Trunk(nn.Module):
    def __init__(self, width=40, depth=3):
        super().__init__()
        self.inp = nn.Linear(16, width)
        self.mid = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x):
        x = torch.tanh(self.inp(x))
        for m in self.mid:
            x = x + torch.tanh(m(x))
        return x


class Classifier(nn.Module):
    def __init__(self, trunk, width=40, classes=4):
        super().__init__()
        self.trunk = trunk
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.trunk(x))


def add_adapters(model):
    for i, lin in enumerate(model.trunk.mid):
        model.trunk.mid[i] = Adapter(lin)
    return model


def trainable(model):
    return [
        p
        for n, p in model.named_parameters()
        if n.startswith("head") or n.endswith((".up", ".down"))
    ]


class Accelerator:
    """Home-grown prepare() as in the other projects of the group."""

    def prepare(self, model, optimizer):
        model = DistributedDataParallel(model)
        kind, kwargs = (
            type(optimizer),
            {k: optimizer.defaults[k] for k in ("lr", "betas", "weight_decay")},
        )
        optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=kind, **kwargs)
        return model, optimizer


def batches(rank, n, bs=16):
    g = torch.Generator().manual_seed(50 + rank)
    w = torch.randn(16, 4, generator=torch.Generator().manual_seed(1))
    for _ in range(n):
        x = torch.randn(bs, 16, generator=g)
        yield x, (x.abs() @ w).argmax(1)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(8)
    model = add_adapters(Classifier(Trunk()))
    optimizer = torch.optim.AdamW(trainable(model), lr=4e-3, weight_decay=0.05)
    log.info(
        "training %d parameters of %d",
        sum(p.numel() for p in trainable(model)),
        sum(p.numel() for p in model.parameters()),
    )
    model, optimizer = Accelerator().prepare(model, optimizer)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=40)
    for step, (x, y) in enumerate(batches(dist.get_rank(), 40)):
        loss = F.cross_entropy(model(x), y)
        model.zero_grad()
        loss.backward()
        optimizer.step()
        sched.step()
        if step % 10 == 9:
            log.info("step %d loss %.4f", step + 1, loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
