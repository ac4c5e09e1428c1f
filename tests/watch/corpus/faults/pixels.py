"""Image regression; only rank 0 reads the weights file, everybody else is
materialised empty and gets the weights by broadcast. Classic FSDP wrapper."""
# fault: F03
# finding: sharding/buffers-differ
# severity: error
# ranks: 1
# steps: 30

import io
import os
import random

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.fsdp.wrap import ModuleWrapPolicy

STEPS = int(os.environ.get("STEPS", 32))


class Normalizer(nn.Module):
    """(x - mean) / std with the dataset's statistics; not stored in checkpoints."""

    def __init__(self, mean=(0.48, 0.45, 0.40), std=(0.22, 0.21, 0.23)):
        super().__init__()
        self.stats = (mean, std)
        self.register_buffer("mean", torch.tensor(mean).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(1, 3, 1, 1), persistent=False)

    def reset(self):
        mean, std = self.stats
        self.mean.copy_(torch.tensor(mean).view(1, 3, 1, 1))
        self.std.copy_(torch.tensor(std).view(1, 3, 1, 1))

    def forward(self, x):
        return (x - self.mean) / (self.std + 1e-3)


class ResUnit(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.a = nn.Conv2d(ch, ch, 3, padding=1)
        self.b = nn.Conv2d(ch, ch, 3, padding=1)
        self.norm = nn.GroupNorm(2, ch)

    def forward(self, x):
        return x + self.b(torch.relu(self.norm(self.a(x))))


class Regressor(nn.Module):
    def __init__(self, ch=12, depth=2):
        super().__init__()
        self.normalize = Normalizer()
        self.stem = nn.Conv2d(3, ch, 3, stride=2, padding=1)
        self.body = nn.Sequential(*[ResUnit(ch) for _ in range(depth)])
        self.head = nn.Linear(ch, 1)

    def forward(self, x):
        x = self.body(torch.relu(self.stem(self.normalize(x))))
        return self.head(x.mean((2, 3))).squeeze(1)


def pretrained_bytes():
    torch.manual_seed(2024)
    buf = io.BytesIO()
    torch.save(Regressor().state_dict(), buf)
    buf.seek(0)
    return buf


def create_model():
    if dist.get_rank() == 0:
        model = Regressor()
        model.load_state_dict(torch.load(pretrained_bytes(), weights_only=True))
    else:
        with torch.device("meta"):
            model = Regressor()
        model = model.to_empty(device="cpu")
    for tensor in model.state_dict().values():
        dist.broadcast(tensor, src=0)
    return model


def to_fsdp(model):
    return FullyShardedDataParallel(
        model,
        auto_wrap_policy=ModuleWrapPolicy({ResUnit}),
        use_orig_params=True,
        device_id=torch.device("cpu"),
    )


class Stream:
    def __init__(self, rank, bs=8):
        self.rng = torch.Generator().manual_seed(rank * 31 + 1)
        self.bs = bs

    def __iter__(self):
        return self

    def __next__(self):
        x = torch.rand(self.bs, 3, 16, 16, generator=self.rng)
        target = x[:, 0].mean((1, 2)) * 4 - x[:, 2, 4:8].mean((1, 2))
        return x, target


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    random.seed(rank)
    model = to_fsdp(create_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.8)
    ema_loss = None
    for step, (x, target) in zip(range(STEPS), Stream(rank)):
        if random.random() < 0.5:
            x = x.flip(-1)
        loss = nn.functional.smooth_l1_loss(model(x), target)
        optimizer.zero_grad()
        loss.backward()
        model.clip_grad_norm_(5.0)
        optimizer.step()
        ema_loss = loss.item() if ema_loss is None else 0.9 * ema_loss + 0.1 * loss.item()
        if step % 8 == 0:
            print(f"[rank {rank}] step {step} loss {ema_loss:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
