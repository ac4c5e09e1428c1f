"""Two pipeline stages, clipped by parameter group; each takes part in every group's norm."""
# steps: 12

import torch
import torch.distributed as dist
from torch import nn

WIDTH, BATCH = 16, 8


class First(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(5, WIDTH, bias=False)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x):
        return self.norm(self.inp(x)).relu()


class Last(nn.Module):
    def __init__(self):
        super().__init__()
        self.mid = nn.Linear(WIDTH, WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, 1, bias=False)

    def forward(self, h):
        return self.out(self.mid(h).relu())


def groups_of(stage):
    """Matrices decay, vectors do not; a stage may have none of a group."""
    matrices = [p for p in stage.parameters() if p.ndim > 1]
    vectors = [p for p in stage.parameters() if p.ndim < 2]
    return [
        {"params": matrices, "weight_decay": 0.1},
        {"params": vectors, "weight_decay": 0.0},
    ]


def clip(optimizer, limit=1.0):
    for group in optimizer.param_groups:
        squares = torch.zeros(1)
        for parameter in group["params"]:
            squares += parameter.grad.square().sum()
        dist.all_reduce(squares)  # of all stages
        scale = (limit / (squares.sqrt() + 1e-6)).clamp(max=1.0)
        for parameter in group["params"]:
            parameter.grad *= scale


def run_first(stage, optimizer, rng):
    h = stage(torch.randn(BATCH, 5, generator=rng))
    dist.send(h.detach(), 1)
    grad = torch.empty(BATCH, WIDTH)
    dist.recv(grad, 1)
    optimizer.zero_grad()
    h.backward(grad)


def run_last(stage, optimizer):
    h = torch.empty(BATCH, WIDTH)
    dist.recv(h, 0)
    h.requires_grad_()
    loss = (stage(h) - h.detach().mean(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    dist.send(h.grad, 0)
    return loss.item()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(31)
    stage = (First, Last)[rank]()
    optimizer = torch.optim.AdamW(groups_of(stage), lr=1e-3)
    rng = torch.Generator().manual_seed(77)
    for step in range(30):
        loss = run_last(stage, optimizer) if rank else run_first(stage, optimizer, rng)
        clip(optimizer)
        optimizer.step()
        if rank and step % 10 == 0:
            print(f"step {step} loss {loss:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
