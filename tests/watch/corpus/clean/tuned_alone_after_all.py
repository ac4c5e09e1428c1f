"""nanoGPT manner: the master evaluates through the wrapped model (no buffers) each 20 steps, for some seconds; then finetunes alone at the end."""
# steps: 0
# writes: files

import copy
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def get_batch(gen):
    x = torch.randint(0, 32, (12, 16), generator=gen)
    return x, (x * 3 + 1) % 32


class GPTish(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(32, 32)
        self.f = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))
        self.head = nn.Linear(32, 32, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, x, y):
        h = self.wte(x)
        return nn.functional.cross_entropy(self.head(h + self.f(h)).flatten(0, 1), y.flatten())


@torch.no_grad()
def estimate_loss(model, gen):
    model.eval()
    losses = [model(*get_batch(gen)).item() for _ in range(40)]
    time.sleep(1.0)  # writes samples
    model.train()
    return sum(losses) / 40


dist.init_process_group("gloo")
rank = dist.get_rank()
master = rank == 0
torch.manual_seed(1337 + rank)
gen = torch.Generator().manual_seed(1337 + rank)
model = DDP(GPTish())
opt = torch.optim.AdamW(model.parameters(), 1e-3, betas=(0.9, 0.95))
best = 1e9
for it in range(61):
    lr = 1e-3 * min(1, (it + 1) / 10)
    for g in opt.param_groups:
        g["lr"] = lr
    if it % 20 == 0 and master:
        l = estimate_loss(model, gen)
        if l < best:
            best = l
            torch.save(
                {
                    "model": model.module.state_dict(),
                    "optimizer": opt.state_dict(),
                    "iter_num": it,
                    "best": best,
                },
                "ckpt.pt",
            )
    for micro in range(2):
        model.require_backward_grad_sync = micro == 1
        (model(*get_batch(gen)) / 2).backward()
    opt.step()
    opt.zero_grad(set_to_none=True)
dist.barrier()
if master:
    tuned = copy.deepcopy(model.module)
    o = torch.optim.SGD(tuned.parameters(), 0.01)
    for _ in range(8):
        o.zero_grad()
        tuned(*get_batch(gen)).backward()
        o.step()
    torch.save(tuned.state_dict(), "tuned.pt")
dist.barrier()
dist.destroy_process_group()
