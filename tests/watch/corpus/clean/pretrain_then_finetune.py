"""A denoising autoencoder, pretrained and then fine-tuned from its checkpoint."""
# steps: 10

import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

RANK = int(os.environ.get("RANK", 0))
STEM = f"ae_{os.environ.get('TORCHELASTIC_RUN_ID', 'x')}_{os.environ.get('MASTER_PORT', 0)}.pth"
PRETRAINED = os.path.join(tempfile.gettempdir(), STEM)


class AutoEncoder(nn.Module):
    def __init__(self, dims=(16, 12, 4)):
        super().__init__()
        wide, middle, narrow = dims
        self.encode = nn.Sequential(nn.Linear(wide, middle), nn.ELU(), nn.Linear(middle, narrow))
        self.decode = nn.Sequential(nn.Linear(narrow, middle), nn.ELU(), nn.Linear(middle, wide))

    def forward(self, x):
        return self.decode(self.encode(x))


def sample(gen, noise):
    code = torch.randn(16, 4, generator=gen)
    clean = torch.cat([code, code.sin(), code.cos(), code**2], dim=1)
    return clean + noise * torch.randn(clean.shape, generator=gen), clean


def fit(model, steps, noise, lr):
    gen = torch.Generator().manual_seed(10 * steps + RANK)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for _ in range(steps):
        noisy, clean = sample(gen, noise)
        loss = nn.functional.mse_loss(model(noisy), clean)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def pretrain():
    model = DDP(AutoEncoder())
    loss = fit(model, steps=6, noise=0.5, lr=1e-2)
    if RANK == 0:
        print(f"pretrained: {loss:.4f}")
        torch.save(model.module.state_dict(), PRETRAINED)
    dist.barrier()


def finetune():
    model = AutoEncoder()
    weights = torch.load(PRETRAINED, weights_only=True)
    model.load_state_dict(weights, strict=False)
    model = DDP(model)
    loss = fit(model, steps=18, noise=0.1, lr=3e-3)
    if RANK == 0:
        print(f"fine-tuned: {loss:.4f}")


if __name__ == "__main__":
    dist.init_process_group("gloo")
    torch.manual_seed(6)
    pretrain()
    finetune()
    dist.barrier()
    if RANK == 0:
        os.unlink(PRETRAINED)
    dist.destroy_process_group()
