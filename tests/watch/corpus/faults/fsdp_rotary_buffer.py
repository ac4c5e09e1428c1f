"""Loaded through meta device the model gives nonsense (or NaN) on every rank but the first."""
# finding: sharding/buffers-differ
# severity: error
# ranks: any
# line: fully_shard(model, mesh=mesh)
# steps: 3

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

VOCAB, WIDTH, HEADS, LENGTH = 20, 16, 2, 8


class Rotary(nn.Module):
    def __init__(self, dim, theta=10000.0):
        super().__init__()
        self.dim = dim
        self.theta = theta
        self.register_buffer("inv_freq", torch.empty(dim // 2), persistent=False)
        self.reset()

    def reset(self):
        exponents = torch.arange(0, self.dim, 2, device=self.inv_freq.device) / self.dim
        self.inv_freq.copy_(self.theta**-exponents)

    def forward(self, x):
        angle = torch.outer(torch.arange(x.shape[-2]).float(), self.inv_freq)
        cos, sin = angle.cos(), angle.sin()
        left, right = x.chunk(2, dim=-1)
        return torch.cat([left * cos - right * sin, left * sin + right * cos], dim=-1)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.feed = nn.Sequential(
            nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 32), nn.GELU(), nn.Linear(32, WIDTH)
        )

    def forward(self, x, rotary):
        b, n, _ = x.shape
        q, k, v = (
            t.view(b, n, HEADS, -1).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1)
        )
        mixed = F.scaled_dot_product_attention(rotary(q), rotary(k), v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(b, n, WIDTH))
        return x + self.feed(x)


class RotaryLM(nn.Module):
    def __init__(self, layers=2):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.rotary = Rotary(WIDTH // HEADS)
        self.layers = nn.ModuleList(Layer() for _ in range(layers))
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, ids):
        h = self.embed(ids)
        for layer in self.layers:
            h = layer(h, self.rotary)
        return self.head(h)


def load_model(rank, mesh):
    with torch.device("meta"):
        model = RotaryLM()
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    model.to_empty(device="cpu")
    weights = {}
    if rank == 0:  # only the first rank reads the weights, the others are sent theirs
        weights = RotaryLM().state_dict()
        model.rotary.reset()
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(model, weights, options=options)
    return model


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(55)
    model = load_model(rank, init_device_mesh("cpu", (world,)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    rng = torch.Generator().manual_seed(40 + rank)
    for step in range(12):
        start = torch.randint(VOCAB, (6, 1), generator=rng)
        ids = (start + torch.arange(LENGTH + 1) * (1 + start % 3)) % VOCAB
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.transpose(1, 2), ids[:, 1:])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 4 == 0:
            print(f"rank {rank} step {step} loss {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
