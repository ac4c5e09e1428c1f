"""LLaMA-like decoder with rotary positions. Rank 0 holds the real weights, the
other ranks start on the meta device to save host memory."""
# fault: F03
# finding: sharding/buffers-differ
# severity: error
# ranks: 1
# steps: 30

import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from torch.distributed.fsdp import fully_shard


class Rotary(nn.Module):
    def __init__(self, dim, base=10000.0):
        super().__init__()
        self.dim, self.base = dim, base
        self.register_buffer("inv_freq", self.compute(), persistent=False)

    def compute(self, device=None):
        return 1.0 / (self.base ** (torch.arange(0, self.dim, 2, device=device).float() / self.dim))

    def forward(self, x):
        t = torch.arange(x.shape[-2], device=x.device).float()
        freqs = torch.outer(t, self.inv_freq)
        cos, sin = freqs.cos(), freqs.sin()
        a, b = x[..., ::2], x[..., 1::2]
        return torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2)


class RMSNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.scale


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = RMSNorm(dim), RMSNorm(dim)
        self.wqkv = nn.Linear(dim, 3 * dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)
        self.rotary = Rotary(dim // heads)
        self.gate = nn.Linear(dim, 2 * dim, bias=False)
        self.up = nn.Linear(dim, 2 * dim, bias=False)
        self.down = nn.Linear(2 * dim, dim, bias=False)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.wqkv(self.n1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(self.rotary(q), self.rotary(k), v, is_causal=True)
        x = x + self.wo(y.transpose(1, 2).reshape(b, t, d))
        h = self.n2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Decoder(nn.Module):
    def __init__(self, vocab=48, dim=32, depth=2, heads=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList([Layer(dim, heads) for _ in range(depth)])
        self.norm = RMSNorm(dim)
        self.lm_head = nn.Linear(dim, vocab, bias=False)

    def forward(self, ids):
        h = self.embed(ids)
        for layer in self.layers:
            h = layer(h)
        return self.lm_head(self.norm(h))


def load_low_mem(seed):
    """Real weights on rank 0 only, then broadcast into the shards."""
    rank = dist.get_rank()
    if rank == 0:
        torch.manual_seed(seed)
        model = Decoder()
        weights = {k: v.clone() for k, v in model.state_dict().items()}
    else:
        with torch.device("meta"):
            model = Decoder()
        weights = {}
    for layer in model.layers:
        fully_shard(layer)
    fully_shard(model)
    if rank != 0:
        model.to_empty(device="cpu")
    set_model_state_dict(
        model, weights, options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    )
    return model


def copy_task(batch, length, vocab, gen):
    half = torch.randint(2, vocab, (batch, length // 2), generator=gen)
    seq = torch.cat([half, torch.ones(batch, 1, dtype=torch.long), half], dim=1)
    return seq[:, :-1], seq[:, 1:]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--iters", type=int, default=35)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--length", type=int, default=16)
    opts = p.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    model = load_low_mem(seed=11)
    optim = torch.optim.AdamW(model.parameters(), lr=opts.lr, betas=(0.9, 0.95))
    gen = torch.Generator().manual_seed(dist.get_rank() + 5)
    for it in range(opts.iters):
        x, y = copy_task(8, opts.length, 48, gen)
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        optim.zero_grad()
        loss.backward()
        optim.step()
        if it % 10 == 0:
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            if dist.get_rank() == 0:
                print(f"iter {it}: {mean.item() / dist.get_world_size():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
