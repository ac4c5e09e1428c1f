"""FSDP2 pre-training of a mini-llama: bf16 params / fp32 reduce, activation checkpointing, DCP save + load."""
# steps: 30
# writes: files

import argparse
import functools
import logging
import os
import shutil

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn.functional as F
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    CheckpointImpl,
    apply_activation_checkpointing,
    checkpoint_wrapper,
)
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_state_dict,
)
from torch.distributed.checkpoint.stateful import Stateful
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

log = logging.getLogger("fsdp2")


class RMSNorm(nn.Module):
    def __init__(self, d, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))
        self.eps = eps

    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        return y.type_as(x) * self.weight


def rope_table(dim, max_len, theta=10000.0):
    freqs = 1.0 / (theta ** (torch.arange(0, dim, 2).float() / dim))
    ang = torch.outer(torch.arange(max_len).float(), freqs)
    return ang.cos(), ang.sin()


def rotate(x, cos, sin):
    a, b = x.float().chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1).type_as(x)


class Block(nn.Module):
    def __init__(self, d, h, ff):
        super().__init__()
        self.h = h
        self.n1, self.n2 = RMSNorm(d), RMSNorm(d)
        self.qkv = nn.Linear(d, 3 * d, bias=False)
        self.o = nn.Linear(d, d, bias=False)
        self.w1, self.w3 = nn.Linear(d, ff, bias=False), nn.Linear(d, ff, bias=False)
        self.w2 = nn.Linear(ff, d, bias=False)

    def forward(self, x, cos, sin):
        B, T, D = x.shape
        q, k, v = self.qkv(self.n1(x)).view(B, T, 3, self.h, D // self.h).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(
            rotate(q, cos, sin), rotate(k, cos, sin), v, is_causal=True
        )
        x = x + self.o(y.transpose(1, 2).reshape(B, T, D))
        z = self.n2(x)
        return x + self.w2(F.silu(self.w1(z)) * self.w3(z))


class MiniLlama(nn.Module):
    def __init__(self, vocab=64, d=32, h=4, layers=3, ff=64, max_len=32):
        super().__init__()
        self.cfg = dict(d=d, h=h, max_len=max_len)
        self.embed = nn.Embedding(vocab, d)
        self.layers = nn.ModuleList(Block(d, h, ff) for _ in range(layers))
        self.norm = RMSNorm(d)
        self.head = nn.Linear(d, vocab, bias=False)
        self.reset_rope()

    def reset_rope(self, device=None):
        cos, sin = rope_table(self.cfg["d"] // self.cfg["h"], self.cfg["max_len"])
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def forward(self, ids):
        T = ids.shape[1]
        x = self.embed(ids)
        for l in self.layers:
            x = l(x, self.cos[:T], self.sin[:T])
        return self.head(self.norm(x))


class AppState(Stateful):
    def __init__(self, model, opt, step=0):
        self.model, self.opt, self.step = model, opt, step

    def state_dict(self):
        m, o = get_state_dict(self.model, self.opt)
        return {"model": m, "optim": o, "step": torch.tensor(self.step)}

    def load_state_dict(self, sd):
        set_state_dict(
            self.model, self.opt, model_state_dict=sd["model"], optim_state_dict=sd["optim"]
        )
        self.step = int(sd["step"])


def build(mesh, seed):
    """Rank 0 holds the real weights, the others start on meta and receive them."""
    rank = dist.get_rank()
    if rank == 0:
        torch.manual_seed(seed)
        full = MiniLlama().state_dict()
    else:
        full = {}
    with torch.device("meta"):
        model = MiniLlama()
    apply_activation_checkpointing(
        model,
        checkpoint_wrapper_fn=functools.partial(
            checkpoint_wrapper, checkpoint_impl=CheckpointImpl.NO_REENTRANT
        ),
        check_fn=lambda m: isinstance(m, Block),
    )
    mp = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=mp)
    fully_shard(model, mesh=mesh, mp_policy=mp)
    model.to_empty(device="cpu")
    model.reset_rope()
    set_model_state_dict(
        model, full, options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    )
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95), weight_decay=0.1)
    return model, opt


def batches(rank, start, n, bs=4, T=24):
    for i in range(start, start + n):
        g = torch.Generator().manual_seed(10_000 * rank + i)
        first = torch.randint(0, 64, (bs, 1), generator=g)
        stride = torch.randint(1, 4, (bs, 1), generator=g)
        yield (first + stride * torch.arange(T + 1)) % 64


def train(app, rank, n, every=4):
    app.model.train()
    for ids in batches(rank, app.step, n):
        logits = app.model(ids[:, :-1]).float()
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(app.model.parameters(), 1.0)
        app.opt.step()
        app.opt.zero_grad(set_to_none=True)
        app.step += 1
        if app.step % every == 0:
            avg = loss.detach().clone()
            dist.all_reduce(
                avg, op=dist.ReduceOp.AVG
            ) if dist.get_backend() == "nccl" else dist.all_reduce(avg)
            if dist.get_backend() != "nccl":
                avg /= dist.get_world_size()
            gnorm = norm.full_tensor().item()
            if rank == 0:
                print(f"step {app.step} loss {avg.item():.4f} gnorm {gnorm:.4f}", flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=12)
    p.add_argument("--ckpt", default="dcp_ckpt")
    a = p.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("fsdp",))

    model, opt = build(mesh, seed=42)
    app = AppState(model, opt)
    train(app, rank, a.steps)
    dcp.save({"app": app}, checkpoint_id=os.path.join(a.ckpt, f"step-{app.step}"))

    # a new run would begin here: other weights, then load
    model2, opt2 = build(mesh, seed=43)
    app2 = AppState(model2, opt2)
    dcp.load({"app": app2}, checkpoint_id=os.path.join(a.ckpt, f"step-{a.steps}"))
    same = all(
        torch.equal(x.to_local(), y.to_local())
        for x, y in zip(model.parameters(), model2.parameters())
    )
    print(f"rank {rank} restored {same} at {app2.step}", flush=True)
    train(app2, rank, a.steps)

    full = get_model_state_dict(
        model2, options=StateDictOptions(full_state_dict=True, cpu_offload=True)
    )
    if rank == 0:
        torch.save(full, "final.pt")
        print(
            "exported",
            len(full),
            "tensors",
            round(sum(v.double().abs().sum().item() for v in full.values()), 3),
        )
    dist.barrier()
    if rank == 0:
        shutil.rmtree(a.ckpt)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
