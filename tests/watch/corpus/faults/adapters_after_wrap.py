"""LoRA on a frozen small transformer."""
# fault: G05
# finding: gradients/replicas-differ
# severity: error
# ranks: 0, 1
# steps: 0
# writes: files

import math
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class LoRALinear(nn.Module):
    def __init__(self, base: nn.Linear, r=4, alpha=8):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.A = nn.Parameter(torch.empty(r, base.in_features))
        self.B = nn.Parameter(torch.zeros(base.out_features, r))
        nn.init.kaiming_uniform_(self.A, a=math.sqrt(5))
        self.scale = alpha / r

    def forward(self, x):
        return self.base(x) + (x @ self.A.T @ self.B.T) * self.scale


def inject(model, names=("fc1", "fc2")):
    for mod in list(model.modules()):
        for n in names:
            child = getattr(mod, n, None)
            if isinstance(child, nn.Linear):
                setattr(mod, n, LoRALinear(child))
    return [p for n, p in model.named_parameters() if n.endswith((".A", ".B"))]


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.fc1, self.fc2 = nn.Linear(d, 2 * d), nn.Linear(2 * d, d)

    def forward(self, x):
        return x + self.fc2(torch.relu(self.fc1(self.norm(x))))


class Net(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.emb = nn.Embedding(50, d)
        self.blocks = nn.ModuleList(Block(d) for _ in range(2))
        self.head = nn.Linear(d, 5)

    def forward(self, ids):
        h = self.emb(ids)
        for b in self.blocks:
            h = b(h)
        return self.head(h.mean(1))


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    dist.init_process_group("gloo")
    torch.manual_seed(42)
    model = Net()
    for p in model.parameters():
        p.requires_grad_(False)
    model.head.requires_grad_(True)
    model = DDP(model)
    torch.manual_seed(42 + local_rank)
    lora = inject(model.module)
    opt = torch.optim.AdamW(
        [{"params": lora, "lr": 5e-3}, {"params": model.module.head.parameters(), "lr": 1e-3}]
    )
    for step in range(24):
        x = torch.randint(0, 50, (8, 12))
        y = x.sum(1) % 5
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        opt.zero_grad()
    if local_rank == 0:
        torch.save(
            {n: p for n, p in model.module.named_parameters() if p.requires_grad}, "adapter.pt"
        )
        print("saved adapter", loss.item())
    dist.destroy_process_group()


main()
