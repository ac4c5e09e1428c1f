# steps: 30
# writes: files

# FSDP1 (FullyShardedDataParallel) on an MLP-Mixer; transformer-style auto wrap, full state dict on rank 0.
import functools
import os
from contextlib import contextmanager

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.fsdp import (
    BackwardPrefetch,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    ShardingStrategy,
    StateDictType,
)
from torch.distributed.fsdp import (
    FullyShardedDataParallel as FSDP,
)
from torch.distributed.fsdp.wrap import ModuleWrapPolicy, size_based_auto_wrap_policy
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

EPOCHS = 3
BS = 8


class Stripes(Dataset):
    """8x8 images with horizontal, vertical or diagonal stripes plus noise."""

    def __init__(self, n, split):
        g = torch.Generator().manual_seed(100 if split == "train" else 200)
        self.labels = torch.randint(0, 3, (n,), generator=g)
        yy, xx = torch.meshgrid(torch.arange(8.0), torch.arange(8.0), indexing="ij")
        pat = torch.stack([torch.sin(yy * 1.5), torch.sin(xx * 1.5), torch.sin((xx + yy) * 1.1)])
        self.imgs = pat[self.labels] + 0.5 * torch.randn(n, 8, 8, generator=g)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.imgs[i].unsqueeze(0), self.labels[i]


class MlpBlock(nn.Module):
    def __init__(self, d, hidden):
        super().__init__()
        self.fc1 = nn.Linear(d, hidden)
        self.act = nn.GELU()
        self.fc2 = nn.Linear(hidden, d)

    def forward(self, x):
        return self.fc2(self.act(self.fc1(x)))


class MixerLayer(nn.Module):
    def __init__(self, tokens, channels):
        super().__init__()
        self.ln1 = nn.LayerNorm(channels)
        self.token_mix = MlpBlock(tokens, 32)
        self.ln2 = nn.LayerNorm(channels)
        self.channel_mix = MlpBlock(channels, 48)

    def forward(self, x):
        x = x + self.token_mix(self.ln1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channel_mix(self.ln2(x))


class Mixer(nn.Module):
    def __init__(self, channels=24, depth=3, classes=3):
        super().__init__()
        self.stem = nn.Conv2d(1, channels, 2, stride=2)
        self.layers = nn.ModuleList(MixerLayer(16, channels) for _ in range(depth))
        self.norm = nn.LayerNorm(channels)
        self.head = nn.Linear(channels, classes)

    def forward(self, x):
        x = self.stem(x).flatten(2).transpose(1, 2)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x).mean(1))


@contextmanager
def full_state(model):
    with FSDP.state_dict_type(
        model,
        StateDictType.FULL_STATE_DICT,
        FullStateDictConfig(offload_to_cpu=False, rank0_only=True),
        FullOptimStateDictConfig(offload_to_cpu=False, rank0_only=True),
    ):
        yield


def save(model, opt, epoch, path):
    # collective: all ranks take part, rank 0 gets the dict
    with full_state(model):
        msd = model.state_dict()
        osd = FSDP.optim_state_dict(model, opt)
    if dist.get_rank() == 0:
        torch.save({"model": msd, "optim": osd, "epoch": epoch}, path)
    dist.barrier()


def train_epoch(model, loader, opt, sched):
    model.train()
    stats = torch.zeros(3)
    for img, label in loader:
        opt.zero_grad(set_to_none=True)
        out = model(img)
        loss = nn.functional.cross_entropy(out, label)
        loss.backward()
        model.clip_grad_norm_(2.0)
        opt.step()
        sched.step()
        stats += torch.tensor(
            [loss.item() * len(label), (out.argmax(1) == label).sum().item(), len(label)]
        )
    dist.all_reduce(stats)
    return (stats[0] / stats[2]).item(), (stats[1] / stats[2]).item()


@torch.no_grad()
def validate(model, loader):
    model.eval()
    stats = torch.zeros(2)
    for img, label in loader:
        stats += torch.tensor([(model(img).argmax(1) == label).sum().item(), len(label)])
    dist.all_reduce(stats)
    return (stats[0] / stats[1]).item()


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    torch.manual_seed(0)  # the same weights on every rank before sharding
    tr, va = Stripes(160, "train"), Stripes(48, "val")
    sampler = DistributedSampler(tr, shuffle=True, seed=5)
    train_loader = DataLoader(tr, BS, sampler=sampler)
    val_loader = DataLoader(va, BS, sampler=DistributedSampler(va, shuffle=False))

    policy = (
        ModuleWrapPolicy({MixerLayer})
        if os.environ.get("WRAP", "module") == "module"
        else functools.partial(size_based_auto_wrap_policy, min_num_params=500)
    )
    model = FSDP(
        Mixer(),
        auto_wrap_policy=policy,
        sharding_strategy=ShardingStrategy.FULL_SHARD,
        device_id=torch.device("cpu"),
        use_orig_params=True,
        backward_prefetch=BackwardPrefetch.BACKWARD_PRE,
    )
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=EPOCHS * len(train_loader))

    best = 0.0
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        loss, acc = train_epoch(model, train_loader, opt, sched)
        val = validate(model, val_loader)
        if rank == 0:
            print(f"epoch {epoch}: loss {loss:.4f} acc {acc:.4f} val {val:.4f}", flush=True)
        if val >= best:
            best = val
            save(model, opt, epoch, "best.pt")

    # reload the best one in a plain module on rank 0
    if rank == 0:
        ck = torch.load("best.pt", weights_only=False)
        plain = Mixer()
        plain.load_state_dict(ck["model"])
        plain.eval()
        with torch.no_grad():
            acc = (plain(va.imgs.unsqueeze(1)).argmax(1) == va.labels).float().mean()
        print(
            f"plain model of epoch {ck['epoch']}: {acc:.4f} best {best:.4f} keys {len(ck['model'])}",
            flush=True,
        )
    dist.barrier()
    print(f"rank {rank}/{world} finished", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
