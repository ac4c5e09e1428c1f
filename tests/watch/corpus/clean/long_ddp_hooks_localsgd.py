"""Communication-efficient training: fp16 compression, PowerSGD and post-local SGD on the same task."""
# steps: 30

import argparse

import torch
import torch.distributed as dist
import torch.distributed.algorithms.model_averaging.averagers as averagers
from torch import nn, optim
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import (
    PostLocalSGDState,
    post_localSGD_hook,
)
from torch.distributed.optim import PostLocalSGDOptimizer
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class TinyTCN(nn.Module):
    """temporal conv net on 1-d signals"""

    def __init__(self, ch=12, classes=4):
        super().__init__()
        layers, c = [], 1
        for i in range(3):
            layers += [
                nn.Conv1d(c, ch, 3, padding=2**i, dilation=2**i),
                nn.GroupNorm(3, ch),
                nn.ReLU(),
            ]
            c = ch
        self.features = nn.Sequential(*layers)
        self.fc = nn.Sequential(nn.Linear(ch, 24), nn.ReLU(), nn.Linear(24, classes))

    def forward(self, x):
        return self.fc(self.features(x).mean(-1))


def signals(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 4, (n,), generator=g)
    t = torch.linspace(0, 6.28, 32)
    phase = torch.rand(n, 1, generator=g) * 6.28
    x = torch.sin((y[:, None] + 1) * t + phase) + 0.3 * torch.randn(n, 32, generator=g)
    return TensorDataset(x.unsqueeze(1), y)


def no_weight_decay_groups(model, wd):
    w = [p for p in model.parameters() if p.dim() > 1]
    b = [p for p in model.parameters() if p.dim() <= 1]
    return [{"params": w, "weight_decay": wd}, {"params": b, "weight_decay": 0.0}]


def setup(kind, args):
    torch.manual_seed(123)
    ddp = DistributedDataParallel(TinyTCN())
    opt = optim.SGD(no_weight_decay_groups(ddp, 1e-4), lr=args.lr, momentum=0.9)
    averager = None
    if kind == "fp16":
        ddp.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif kind == "powersgd":
        state = powerSGD_hook.PowerSGDState(
            process_group=None,
            matrix_approximation_rank=2,
            start_powerSGD_iter=4,
            min_compression_rate=0.5,
        )
        ddp.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    elif kind == "localsgd":
        # every rank is its own subgroup: gradients stay local after the start, parameters are averaged
        groups = [dist.new_group([r]) for r in range(dist.get_world_size())]
        state = PostLocalSGDState(
            process_group=None, subgroup=groups[dist.get_rank()], start_localSGD_iter=5
        )
        ddp.register_comm_hook(state, post_localSGD_hook)
        averager = averagers.PeriodicModelAverager(period=4, warmup_steps=5)
        opt = PostLocalSGDOptimizer(optim=opt, averager=averager)
    elif kind != "plain":
        raise ValueError(kind)
    return ddp, opt, averager


def average_parameters(module):
    """one last exact average, so that all ranks evaluate the same network"""
    with torch.no_grad():
        for p in module.parameters():
            dist.all_reduce(p.data)
            p.data /= dist.get_world_size()


def evaluate(ddp, ds):
    ddp.eval()
    rank, world = dist.get_rank(), dist.get_world_size()
    idx = torch.arange(rank, len(ds), world)  # no padding
    x, y = ds.tensors[0][idx], ds.tensors[1][idx]
    with torch.no_grad():
        hit = (ddp(x).argmax(1) == y).sum()
    stats = torch.stack([hit, torch.tensor(len(idx))]).float()
    dist.all_reduce(stats)
    ddp.train()
    return (stats[0] / stats[1]).item()


def train(kind, args):
    ddp, opt, averager = setup(kind, args)
    data, test = signals(160, 1), signals(61, 2)
    sampler = DistributedSampler(data, shuffle=True, seed=args.seed)
    loader = DataLoader(data, batch_size=args.batch, sampler=sampler)
    loss_fn = nn.CrossEntropyLoss()
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        seen = 0.0
        for x, y in loader:
            opt.zero_grad()
            loss = loss_fn(ddp(x), y)
            loss.backward()
            opt.step()
            seen += loss.item()
        t = torch.tensor([seen / len(loader)])
        dist.all_reduce(t)
        if dist.get_rank() == 0:
            print(
                f"{kind:9s} epoch {epoch} loss {t.item() / dist.get_world_size():.4f}", flush=True
            )
    if averager is not None:
        average_parameters(ddp.module)
    acc = evaluate(ddp, test)
    checksum = sum(p.double().abs().sum() for p in ddp.parameters()).item()
    print(f"rank {dist.get_rank()} {kind} acc {acc:.4f} params {checksum:.4f}", flush=True)
    dist.barrier()
    return acc


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--hooks", nargs="*", default=["localsgd", "fp16", "powersgd", "plain"])
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=3)
    opts = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    results = {k: train(k, opts) for k in opts.hooks}
    if dist.get_rank() == 0:
        print("summary", {k: round(v, 3) for k, v in results.items()})
    dist.destroy_process_group()
