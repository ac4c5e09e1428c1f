"""Pipeline of two stages (feature extractor | loss head) with a partitioned
optimizer in the spirit of ZeRO-1. Gradient statistics are shared between the
stages before clipping."""
# fault: Q03
# finding: ranks/other-collective
# severity: error
# ranks: 0, 1
# line: dist.all_reduce(sq)
# steps: 30

import torch
import torch.distributed as dist
from torch import nn

WIDTH = 16


class Extractor(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(8, WIDTH),
            nn.LayerNorm(WIDTH),
            nn.ReLU(),
            nn.Linear(WIDTH, WIDTH),
            nn.LayerNorm(WIDTH),
            nn.ReLU(),
        )

    def forward(self, x):
        return self.net(x)


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(WIDTH, 3, bias=False)

    def forward(self, x):
        return self.out(x)


def split_groups(module, weight_decay):
    decay = [p for p in module.parameters() if p.ndim > 1]
    no_decay = [p for p in module.parameters() if p.ndim <= 1]
    return [
        {"params": decay, "weight_decay": weight_decay, "name": "decay"},
        {"params": no_decay, "weight_decay": 0.0, "name": "no_decay"},
    ]


class StageOptimizer:
    def __init__(self, module, lr, max_norm=1.0):
        self.groups = split_groups(module, 0.01)
        self.inner = torch.optim.AdamW([g for g in self.groups if g["params"]], lr=lr)
        self.max_norm = max_norm

    def group_norm(self, group):
        total = 0.0
        for p in group["params"]:
            sq = p.grad.pow(2).sum()
            dist.all_reduce(sq)
            total += sq.item()
        return total

    def step(self):
        total = sum(self.group_norm(g) for g in self.groups) ** 0.5
        coef = min(1.0, self.max_norm / (total + 1e-6))
        for g in self.groups:
            for p in g["params"]:
                p.grad.mul_(coef)
        self.inner.step()
        self.inner.zero_grad()
        return total


class TwoStage:
    def __init__(self):
        self.rank = dist.get_rank()
        self.module = Extractor() if self.rank == 0 else Head()
        self.opt = StageOptimizer(self.module, lr=4e-3)
        self.ce = nn.CrossEntropyLoss()

    def step(self, x, y):
        if self.rank == 0:
            act = self.module(x)
            dist.send(act.detach(), dst=1)
            grad = torch.empty_like(act)
            dist.recv(grad, src=1)
            act.backward(grad)
            loss = None
        else:
            act = torch.empty(len(x), WIDTH)
            dist.recv(act, src=0)
            act.requires_grad_()
            loss = self.ce(self.module(act), y)
            loss.backward()
            dist.send(act.grad, dst=0)
        norm = self.opt.step()
        return loss, norm


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(10)
    runner = TwoStage()
    gen = torch.Generator().manual_seed(3)
    centers = torch.randn(3, 8, generator=gen)
    for step in range(30):
        y = torch.randint(0, 3, (12,), generator=gen)
        x = centers[y] + 0.5 * torch.randn(12, 8, generator=gen)
        loss, norm = runner.step(x, y)
        if loss is not None and step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f} grad norm {norm:.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
