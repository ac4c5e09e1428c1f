"""Contrastive pretraining with a queue of past keys, each rank its own."""
# steps: 0

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Moco(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(16, 8)
        self.register_buffer("queue", nn.functional.normalize(torch.randn(64, 8), dim=1))
        self.register_buffer("ptr", torch.zeros(1, dtype=torch.long))
        self.register_buffer("loss_ema", torch.ones(()))

    def forward(self, x):
        z = nn.functional.normalize(self.enc(x), dim=1)
        k = nn.functional.normalize(self.enc(x + 0.01), dim=1).detach()
        logits = torch.cat([(z * k).sum(1, keepdim=True), z @ self.queue.clone().T], 1)
        with torch.no_grad():
            p = int(self.ptr)
            self.queue[p : p + len(k)] = k
            self.ptr[0] = (p + len(k)) % 64
        loss = nn.functional.cross_entropy(logits / 0.1, torch.zeros(len(x), dtype=torch.long))
        self.loss_ema.mul_(0.9).add_(loss.detach(), alpha=0.1)
        return loss


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    m = DDP(Moco(), broadcast_buffers=False)
    opt = torch.optim.Adam(m.parameters(), lr=1e-3)
    g = torch.Generator().manual_seed(dist.get_rank())
    for i in range(30):
        loss = m(torch.randn(8, 16, generator=g))
        opt.zero_grad()
        loss.backward()
        opt.step()
    dist.destroy_process_group()


main()
