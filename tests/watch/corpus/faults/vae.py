"""Convolutional VAE; model classes bring their own training_step (lightning-like, home made)."""
# fault: G03
# finding: gradients/replicas-differ
# severity: error
# ranks: 0, 1
# line: out["loss"].backward()
# steps: 30
# writes: files

import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

OUT = Path("vae_out")


class Base(nn.Module):
    def training_step(self, batch, batch_idx):
        raise NotImplementedError

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=2e-3)


class ConvVAE(Base):
    def __init__(self, z=8, beta=0.1):
        super().__init__()
        self.beta = beta
        self.enc = nn.Sequential(
            nn.Conv2d(1, 16, 4, 2, 1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 4, 2, 1),
            nn.ReLU(),
            nn.Flatten(),
        )
        self.mu, self.logvar = nn.Linear(32 * 16, z), nn.Linear(32 * 16, z)
        self.dec = nn.Sequential(
            nn.Linear(z, 32 * 16),
            nn.Unflatten(1, (32, 4, 4)),
            nn.ReLU(),
            nn.ConvTranspose2d(32, 16, 4, 2, 1),
            nn.ReLU(),
            nn.ConvTranspose2d(16, 1, 4, 2, 1),
        )

    def forward(self, x):
        h = self.enc(x)
        mu, lv = self.mu(h), self.logvar(h)
        zz = mu + torch.randn_like(mu) * (0.5 * lv).exp()
        return self.dec(zz), mu, lv

    def training_step(self, batch, batch_idx):
        (x,) = batch
        rec, mu, lv = self(x)
        rl = F.binary_cross_entropy_with_logits(rec, x, reduction="sum") / x.size(0)
        kld = -0.5 * (1 + lv - mu.pow(2) - lv.exp()).sum() / x.size(0)
        return {"loss": rl + self.beta * kld, "rec": rl.detach(), "kld": kld.detach()}


class EMA:
    def __init__(self, net, decay=0.99):
        self.decay = decay
        self.shadow = {k: v.clone() for k, v in net.state_dict().items()}

    @torch.no_grad()
    def update(self, net):
        for k, v in net.state_dict().items():
            self.shadow[k].lerp_(v, 1 - self.decay)


class MiniTrainer:
    def __init__(self, max_epochs=3):
        self.max_epochs = max_epochs
        self.rank = int(os.environ.get("RANK", 0))

    def setup(self, net):
        self.net = nn.parallel.DistributedDataParallel(net)
        self.opt = net.configure_optimizers()
        self.ema = EMA(net)

    def run_step(self, batch, i):
        fn = getattr(self.net, "module", self.net).training_step
        out = fn(batch, i)
        self.opt.zero_grad()
        out["loss"].backward()
        self.opt.step()
        self.ema.update(self.net.module)
        return out

    def fit(self, net, loader):
        self.setup(net)
        for ep in range(self.max_epochs):
            loader.sampler.set_epoch(ep)
            tic = time.time()
            for i, batch in enumerate(loader):
                out = self.run_step(batch, i)
            if self.rank == 0:
                print(
                    f"epoch {ep}: rec {out['rec']:.2f} kld {out['kld']:.2f} ({time.time() - tic:.1f}s)"
                )
        if self.rank == 0:
            OUT.mkdir(exist_ok=True)
            torch.save(
                {"net": self.net.module.state_dict(), "ema": self.ema.shadow}, OUT / "last.ckpt"
            )
        dist.barrier()


def blobs(n=384):
    g = torch.Generator().manual_seed(3)
    c = torch.randint(3, 13, (n, 2, 1, 1), generator=g)
    yy, xx = torch.meshgrid(torch.arange(16), torch.arange(16), indexing="ij")
    d = (yy - c[:, 0]) ** 2 + (xx - c[:, 1]) ** 2
    return torch.exp(-d / 6.0).unsqueeze(1)


def cli():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    ds = TensorDataset(blobs())
    dl = DataLoader(ds, 16, sampler=DistributedSampler(ds, shuffle=True), drop_last=True)
    torch.manual_seed(100 + dist.get_rank())  # own noise per rank
    MiniTrainer().fit(ConvVAE(), dl)
    dist.destroy_process_group()


if __name__ == "__main__":
    cli()
