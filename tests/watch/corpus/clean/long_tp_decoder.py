"""Tensor parallel decoder (Megatron-style columns/rows), data identical on all TP ranks."""
# steps: 30
# writes: files

import math
import os
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)


@dataclass
class Config:
    vocab: int = 48
    dim: int = 32
    heads: int = 4
    layers: int = 2
    seq: int = 20
    batch: int = 6
    steps: int = 20
    lr: float = 4e-3
    warmup: int = 4
    clip: float = 1.0


class Attention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.hd = cfg.dim // cfg.heads
        self.wq = nn.Linear(cfg.dim, cfg.dim, bias=False)
        self.wk = nn.Linear(cfg.dim, cfg.dim, bias=False)
        self.wv = nn.Linear(cfg.dim, cfg.dim, bias=False)
        self.wo = nn.Linear(cfg.dim, cfg.dim, bias=False)

    def forward(self, x):
        b, t, _ = x.shape
        # number of heads here is local: dim of the projection divided by the head size
        q, k, v = (
            w(x).view(b, t, -1, self.hd).transpose(1, 2) for w in (self.wq, self.wk, self.wv)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(y.transpose(1, 2).reshape(b, t, -1))


class FeedForward(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.up = nn.Linear(cfg.dim, 4 * cfg.dim)
        self.down = nn.Linear(4 * cfg.dim, cfg.dim)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Layer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.ln1 = nn.LayerNorm(cfg.dim)
        self.attn = Attention(cfg)
        self.ln2 = nn.LayerNorm(cfg.dim)
        self.ff = FeedForward(cfg)

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.ff(self.ln2(x))


class Decoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.tok = nn.Embedding(cfg.vocab, cfg.dim)
        self.pos = nn.Embedding(cfg.seq, cfg.dim)
        self.layers = nn.ModuleList(Layer(cfg) for _ in range(cfg.layers))
        self.norm = nn.LayerNorm(cfg.dim)
        self.lm_head = nn.Linear(cfg.dim, cfg.vocab, bias=False)

    def forward(self, ids):
        x = self.tok(ids) + self.pos(torch.arange(ids.shape[1]))
        for l in self.layers:
            x = l(x)
        return self.lm_head(self.norm(x))


def tp_plan(model, mesh):
    for l in model.layers:
        parallelize_module(
            l,
            mesh,
            {
                "attn.wq": ColwiseParallel(),
                "attn.wk": ColwiseParallel(),
                "attn.wv": ColwiseParallel(),
                "attn.wo": RowwiseParallel(),
                "ff.up": ColwiseParallel(),
                "ff.down": RowwiseParallel(),
            },
        )
    parallelize_module(
        model,
        mesh,
        {
            "tok": RowwiseParallel(input_layouts=Replicate()),
            "lm_head": ColwiseParallel(output_layouts=Replicate()),
        },
    )
    return model


def corpus(cfg, n):
    """counting modulo a hidden base, the same stream on every rank of the TP group"""
    g = torch.Generator().manual_seed(2024)
    for _ in range(n):
        start = torch.randint(0, cfg.vocab, (cfg.batch, 1), generator=g)
        step = torch.randint(1, 5, (cfg.batch, 1), generator=g)
        yield (start + step * torch.arange(cfg.seq + 1)) % cfg.vocab


def clip_mixed(params, max_norm):
    """total norm over DTensor shards and replicated tensors"""
    sq = torch.zeros(())
    for p in params:
        g = p.grad.full_tensor() if isinstance(p.grad, DTensor) else p.grad
        sq += g.float().pow(2).sum()
    norm = sq.sqrt()
    scale = torch.clamp(max_norm / (norm + 1e-6), max=1.0).item()
    with torch.no_grad():
        for p in params:
            p.grad.mul_(scale)
    return norm


def lr_at(step, cfg):
    if step < cfg.warmup:
        return cfg.lr * (step + 1) / cfg.warmup
    t = (step - cfg.warmup) / max(1, cfg.steps - cfg.warmup)
    return cfg.lr * 0.5 * (1 + math.cos(math.pi * t))


def export(model):
    out = {}
    for k, v in model.state_dict().items():
        out[k] = v.full_tensor() if isinstance(v, DTensor) else v.clone()
    return out


def main():
    cfg = Config()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    assert cfg.heads % world == 0
    mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("tp",))
    torch.manual_seed(1)
    model = tp_plan(Decoder(cfg), mesh["tp"])
    params = [p for p in model.parameters()]
    opt = torch.optim.AdamW(params, lr=cfg.lr, weight_decay=0.0, foreach=False)
    for step, ids in enumerate(corpus(cfg, cfg.steps)):
        for g in opt.param_groups:
            g["lr"] = lr_at(step, cfg)
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        norm = clip_mixed(params, cfg.clip)
        opt.step()
        if rank == 0 and step % 4 == 3:
            print(f"[{step}] loss {loss.item():.4f} norm {norm.item():.4f}", flush=True)

    full = export(model)  # collective
    ref = Decoder(cfg)
    ref.load_state_dict(full)
    ids = next(iter(corpus(cfg, 1)))
    with torch.no_grad():
        diff = (ref(ids[:, :-1]) - model(ids[:, :-1])).abs().max().item()
    print(
        f"rank {rank}: plain replica agrees {diff < 1e-4}, ln {full['norm.weight'].sum().item():.5f}",
        flush=True,
    )
    if rank == 0:
        torch.save(full, os.path.join(os.getcwd(), "tp_full.pt"))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
