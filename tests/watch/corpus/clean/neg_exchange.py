"""Contrastive (SimCLR/MoCo flavour) training: the negatives queue is swapped with the other rank."""
# steps: 30

import argparse
import logging
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

logger = logging.getLogger(__name__)


class Encoder(nn.Module):
    def __init__(self, din=64, dim=256):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(din, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, dim)
        )

    def forward(self, x):
        return F.normalize(self.body(x), dim=-1)


class Queue:
    """ring buffer of embeddings"""

    def __init__(self, size, dim):
        g = torch.Generator().manual_seed(9)
        self.bank = F.normalize(torch.randn(size, dim, generator=g), dim=-1)
        self.ptr = 0

    def push(self, z):
        n = z.size(0)
        self.bank[self.ptr : self.ptr + n] = z
        self.ptr = (self.ptr + n) % self.bank.size(0)


class PeerExchange:
    """ships our bank to the next rank and takes the one of the previous rank"""

    def __init__(self):
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.next = (self.rank + 1) % self.world
        self.prev = (self.rank - 1) % self.world

    def swap(self, bank):
        incoming = torch.empty_like(bank)
        ops = [dist.P2POp(dist.isend, bank, self.next), dist.P2POp(dist.irecv, incoming, self.prev)]
        for req in dist.batch_isend_irecv(ops):
            req.wait()
        return incoming


def two_views(x, g):
    return (
        x + 0.1 * torch.randn(x.shape, generator=g),
        x + 0.1 * torch.randn(x.shape, generator=g),
    )


def info_nce(q, k, negatives, tau=0.2):
    pos = (q * k).sum(-1, keepdim=True)
    logits = torch.cat([pos, q @ negatives.T], 1) / tau
    return F.cross_entropy(logits, torch.zeros(len(q), dtype=torch.long))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=24)
    p.add_argument("--swap-every", type=int, default=6)
    p.add_argument("--queue", type=int, default=4096)
    a = p.parse_args()
    logging.basicConfig(level=logging.INFO)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=40))
    torch.manual_seed(0)
    model = DDP(Encoder())
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    queue = Queue(a.queue, 256)
    peers = PeerExchange()
    negatives = queue.bank.clone()
    g = torch.Generator().manual_seed(500 + peers.rank)
    for step in range(1, a.steps + 1):
        x = torch.randn(32, 64, generator=g)
        va, vb = two_views(x, g)
        z = model(torch.cat([va, vb]))
        q, k = z.chunk(2)
        loss = info_nce(q, k.detach(), negatives)
        opt.zero_grad()
        loss.backward()
        opt.step()
        queue.push(k.detach())
        if step % a.swap_every == 0:
            negatives = peers.swap(queue.bank)
            if peers.rank == 0:
                logger.info("step %d loss %.3f, swapped queues", step, loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
