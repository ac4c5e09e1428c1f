"""Transfer learning with callbacks: the backbone is thawed after a few iterations."""
# fault: G05
# finding: gradients/replicas-differ
# severity: error
# ranks: 0, 1
# steps: 30

import logging
import sys
from typing import List

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler

log = logging.getLogger(__name__)


class Hook:
    trainer = None

    def before_train(self): ...
    def before_step(self): ...
    def after_step(self): ...
    def after_epoch(self): ...


class LogHook(Hook):
    def __init__(self, every=10):
        self.every = every

    def after_step(self):
        if self.trainer.iter % self.every == 0 and dist.get_rank() == 0:
            log.info(
                "iter %d loss %.4f lr %s",
                self.trainer.iter,
                self.trainer.last_loss,
                [g["lr"] for g in self.trainer.optimizer.param_groups],
            )


class FreezeBackboneHook(Hook):
    """freeze for the first `until` iterations, then fine-tune everything with a smaller lr"""

    def __init__(self, until: int, lr_mult=0.1):
        self.until, self.lr_mult = until, lr_mult

    def before_train(self):
        for p in self.trainer.net.backbone.parameters():
            p.requires_grad = False

    def before_step(self):
        if self.trainer.iter != self.until:
            return
        net = self.trainer.net
        for p in net.backbone.parameters():
            p.requires_grad = True
        self.trainer.optimizer.add_param_group(
            {"params": list(net.backbone.parameters()), "lr": self.trainer.lr * self.lr_mult}
        )
        if dist.get_rank() == 0:
            log.info("backbone thawed at iter %d", self.trainer.iter)


class Net(nn.Module):
    def __init__(self, k=5):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(3, 12, 3, 2, 1),
            nn.ReLU(),
            nn.Conv2d(12, 24, 3, 2, 1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
        )
        self.box_head = nn.Sequential(nn.Linear(96, 32), nn.ReLU(), nn.Linear(32, k))

    def forward(self, x):
        return self.box_head(self.backbone(x))


class Textures(Dataset):
    def __init__(self, n, k=5):
        self.n, self.k = n, k

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        y = i % self.k
        x = torch.randn(3, 24, 24, generator=g)
        x[:, :: y + 2] += 1.5
        return x, y


class Trainer:
    def __init__(self, hooks: List[Hook], lr=0.05):
        self.lr, self.iter = lr, 0
        self.net = Net()
        self.hooks = hooks
        for h in hooks:
            h.trainer = self
            h.before_train()
        self.optimizer = torch.optim.SGD(
            (p for p in self.net.parameters() if p.requires_grad), lr=lr, momentum=0.9
        )
        self.wrap()
        self.crit = nn.CrossEntropyLoss()

    def wrap(self):
        self.model = DDP(self.net)

    def fit(self, loader, epochs):
        for ep in range(epochs):
            loader.sampler.set_epoch(ep)
            for x, y in loader:
                for h in self.hooks:
                    h.before_step()
                loss = self.crit(self.model(x), y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                self.last_loss = loss.item()
                for h in self.hooks:
                    h.after_step()
                self.iter += 1
            for h in self.hooks:
                h.after_epoch()


def main(argv):
    logging.basicConfig(level=logging.INFO, stream=sys.stdout)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(11)
    ds = Textures(480)
    loader = DataLoader(ds, batch_size=12, sampler=DistributedSampler(ds, seed=5), drop_last=True)
    Trainer([FreezeBackboneHook(until=9), LogHook()]).fit(loader, epochs=2)
    dist.destroy_process_group()


main(sys.argv[1:])
