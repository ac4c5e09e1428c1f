"""VAE with DDP + ZeroRedundancyOptimizer; optimizer state consolidated to rank 0 at every checkpoint."""
# steps: 30
# writes: files

import argparse
import json
import logging
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def get_logger(rank):
    log = logging.getLogger("vae")
    h = logging.StreamHandler(sys.stdout)
    h.setFormatter(logging.Formatter(f"[r{rank}] %(message)s"))
    log.addHandler(h)
    log.setLevel(logging.INFO if rank == 0 else logging.WARNING)
    return log


class VAE(nn.Module):
    def __init__(self, d_in=40, hidden=32, z=4):
        super().__init__()
        self.enc = nn.Sequential(
            nn.Linear(d_in, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU()
        )
        self.mu = nn.Linear(hidden, z)
        self.logvar = nn.Linear(hidden, z)
        self.dec = nn.Sequential(nn.Linear(z, hidden), nn.SiLU(), nn.Linear(hidden, d_in))

    def forward(self, x, gen=None):
        h = self.enc(x)
        mu, logvar = self.mu(h), self.logvar(h)
        eps = torch.randn(mu.shape, generator=gen)
        return self.dec(mu + eps * torch.exp(0.5 * logvar)), mu, logvar


def elbo(recon, x, mu, logvar, beta):
    rec = F.mse_loss(recon, x, reduction="none").sum(1)
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1)
    return (rec + beta * kl).mean(), rec.mean().detach(), kl.mean().detach()


def make_data(n=256, d=40):
    g = torch.Generator().manual_seed(31)
    basis = torch.randn(4, d, generator=g)
    return torch.randn(n, 4, generator=g) @ basis + 0.1 * torch.randn(n, d, generator=g)


class Checkpointer:
    def __init__(self, path, rank):
        self.path, self.rank = path, rank

    def save(self, model, opt, epoch):
        opt.consolidate_state_dict(to=0)  # every rank takes part
        if self.rank == 0:
            tmp = self.path + ".tmp"
            torch.save(
                {"model": model.module.state_dict(), "opt": opt.state_dict(), "epoch": epoch}, tmp
            )
            os.replace(tmp, self.path)
        dist.barrier()

    def load(self, model, opt):
        blob = torch.load(self.path, map_location="cpu", weights_only=False)
        model.module.load_state_dict(blob["model"])
        opt.load_state_dict(blob["opt"])
        return blob["epoch"] + 1


def make(lr):
    model = DDP(VAE(), bucket_cap_mb=1)
    opt = ZeroRedundancyOptimizer(
        model.parameters(), optimizer_class=torch.optim.Adam, lr=lr, parameters_as_bucket_view=False
    )
    return model, opt


def fit(model, opt, loader, sampler, start, end, rank, log, ck):
    gen = torch.Generator().manual_seed(500 + rank)  # own noise on each rank
    for epoch in range(start, end):
        sampler.set_epoch(epoch)
        beta = min(1.0, (epoch + 1) / 3)
        agg = torch.zeros(3)
        for (x,) in loader:
            out, mu, logvar = model(x, gen)
            loss, rec, kl = elbo(out, x, mu, logvar, beta)
            opt.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
            opt.step()
            agg += torch.stack([loss.detach(), rec, kl])
        dist.reduce(agg, dst=0)
        agg /= len(loader) * dist.get_world_size()
        log.info("epoch %d elbo %.4f rec %.4f kl %.4f", epoch, *agg.tolist())
        ck.save(model, opt, epoch)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--path", default="vae.pt")
    args = ap.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group(backend="gloo")
    rank = dist.get_rank()
    log = get_logger(rank)
    torch.manual_seed(rank)  # harmless: DDP broadcasts rank 0's weights
    data = TensorDataset(make_data())
    sampler = DistributedSampler(data, shuffle=True, drop_last=True)
    loader = DataLoader(data, batch_size=16, sampler=sampler)
    ck = Checkpointer(args.path, rank)

    model, opt = make(args.lr)
    fit(model, opt, loader, sampler, 0, args.epochs, rank, log, ck)
    log.info("--- restart ---")
    model, opt = make(args.lr)
    first = ck.load(model, opt)
    log.info("resume at epoch %d", first)
    fit(model, opt, loader, sampler, first, first + 2, rank, log, ck)

    sums = [None] * dist.get_world_size()
    dist.all_gather_object(sums, round(sum(p.double().sum().item() for p in model.parameters()), 6))
    log.info(json.dumps({"replicas_equal": len(set(sums)) == 1}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
