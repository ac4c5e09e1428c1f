"""VQ-VAE with the codebook learned by exponential moving averages (Sonnet recipe)."""
# fault: B01
# finding: buffers/go-apart
# severity: warning
# ranks: 0, 1
# steps: 0
# writes: files

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class VectorQuantizerEMA(nn.Module):
    def __init__(self, k=32, d=8, decay=0.9):
        super().__init__()
        self.k, self.decay = k, decay
        embed = torch.randn(k, d)
        self.register_buffer("embedding", embed)
        self.register_buffer("ema_count", torch.ones(k))
        self.register_buffer("ema_sum", embed.clone())

    def forward(self, z):
        dist_ = torch.cdist(z, self.embedding)
        idx = dist_.argmin(1)
        if self.training:
            with torch.no_grad():
                onehot = F.one_hot(idx, self.k).type_as(z)
                n, s = onehot.sum(0), onehot.t() @ z
                self.ema_count.lerp_(n, 1 - self.decay)
                self.ema_sum.lerp_(s, 1 - self.decay)
                self.embedding.copy_(self.ema_sum / self.ema_count.clamp(min=1e-3)[:, None])
        q = self.embedding[idx]
        commit = F.mse_loss(z, q.detach())
        return z + (q - z).detach(), commit, idx


class VQVAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 8))
        self.vq = VectorQuantizerEMA()
        self.dec = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 32))

    def forward(self, x):
        q, commit, _ = self.vq(self.enc(x))
        return F.mse_loss(self.dec(q), x) + 0.25 * commit


def main():
    dist.init_process_group("gloo")
    r = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(VQVAE(), broadcast_buffers=False)
    opt = torch.optim.Adam(model.parameters(), 3e-3)
    g = torch.Generator().manual_seed(r)
    centers = torch.randn(8, 32, generator=torch.Generator().manual_seed(99))
    for it in range(40):
        x = centers[torch.randint(0, 8, (32,), generator=g)] + 0.1 * torch.randn(
            32, 32, generator=g
        )
        opt.zero_grad()
        loss = model(x)
        loss.backward()
        opt.step()
    print(r, loss.item(), "codebook", model.module.vq.embedding.abs().sum().item())
    if r == 0:
        torch.save(model.module.state_dict(), "vqvae.pt")
    dist.destroy_process_group()


main()
