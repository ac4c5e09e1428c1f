"""Healthy twins of the faults: what looks like one, and is none."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

_all_reduce = dist.all_reduce
calls: list[torch.Size] = []


def counted_all_reduce(tensor, *args, **kwargs):
    calls.append(tensor.shape)
    return _all_reduce(tensor, *args, **kwargs)


dist.all_reduce = counted_all_reduce


class Net(nn.Module):
    def __init__(self, norm=nn.Identity):
        super().__init__()
        self.backbone = nn.Linear(10, 20)
        self.norm = norm(20)
        self.head = nn.Linear(20, 3)

    def forward(self, x):
        return self.head(self.norm(self.backbone(x)).relu())


def batches(size=8, count=4):
    generator = torch.Generator().manual_seed(dist.get_rank())
    return [
        (torch.randn(size, 10, generator=generator), torch.arange(size) % 3) for _ in range(count)
    ]


def cross_entropy(model, batch):
    return functional.cross_entropy(model(batch[0]), batch[1])


def seeds_of_their_own():
    torch.manual_seed(1000 + dist.get_rank())
    return Net(), batches(), cross_entropy


def touched_before_wrap():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if dist.get_rank() == 1:
        nn.init.zeros_(model.head.weight)
    return model, batches(), cross_entropy, optimizer


def unfrozen_before_wrap():
    model = Net().requires_grad_(requires_grad=False)

    def wrap(model):
        return DistributedDataParallel(model.requires_grad_())

    return model, batches(), cross_entropy, torch.optim.Adam(model.parameters()), wrap


def frozen_for_good():
    model = Net()
    model.backbone.requires_grad_(requires_grad=False)
    trainable = [p for p in model.parameters() if p.requires_grad]
    return model, batches(), cross_entropy, torch.optim.Adam(trainable)


def batchnorm_with_enough_samples():
    return Net(nn.BatchNorm1d), batches(size=32), cross_entropy


class Experts(nn.Module):
    """Sends each sample to the expert of its domain; rank 0 has domain 0, rank 1 domain 1."""

    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(10, 3) for _ in range(2))

    def forward(self, x, domain):
        out = x.new_zeros(len(x), 3)
        for number in domain.unique().tolist():
            chosen = domain == number
            out = out.index_put((chosen,), self.experts[number](x[chosen]))
        return out


def unused_and_told_so():
    def loss(model, batch):
        x, label, domain = batch
        return functional.cross_entropy(model(x, domain), label)

    def wrap(model):
        return DistributedDataParallel(model, find_unused_parameters=True)

    mine = torch.full((8,), dist.get_rank())
    return Experts(), [(*batch, mine) for batch in batches()], loss, None, wrap
