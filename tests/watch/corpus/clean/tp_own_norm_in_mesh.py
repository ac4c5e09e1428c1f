"""Own RMSNorm in a tensor-parallel model, which says that its gradients are parts of a sum."""
# steps: 6

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

VOCAB, WIDTH, LENGTH = 32, 16, 8


class RMSNorm(nn.Module):
    """Works on the part of the sequence that a rank has."""

    def __init__(self, dim, mesh):
        super().__init__()
        weight = DTensor.from_local(torch.ones(dim), mesh, [Replicate()], run_check=False)
        self.weight = nn.Parameter(weight)

    def forward(self, x):
        x = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
        return x * self.weight.to_local(grad_placements=[Partial()])


class Block(nn.Module):
    def __init__(self, mesh):
        super().__init__()
        self.norm = RMSNorm(WIDTH, mesh)
        self.gate = nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.up = nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.down = nn.Linear(2 * WIDTH, WIDTH, bias=False)

    def forward(self, x):
        h = self.norm(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Model(nn.Module):
    def __init__(self, mesh, depth=2):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.blocks = nn.ModuleList(Block(mesh) for _ in range(depth))
        self.norm = RMSNorm(WIDTH, mesh)
        self.head = nn.Linear(WIDTH, VOCAB, bias=False)

    def forward(self, ids):
        h = self.embed(ids)
        for block in self.blocks:
            h = block(h)
        return self.head(self.norm(h))


def tensor_parallel(model, mesh):
    plan = {
        "embed": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
        "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
    }
    for i in range(len(model.blocks)):
        plan[f"blocks.{i}.gate"] = ColwiseParallel(input_layouts=Shard(1))
        plan[f"blocks.{i}.up"] = ColwiseParallel(input_layouts=Shard(1))
        plan[f"blocks.{i}.down"] = RowwiseParallel(output_layouts=Shard(1))
    return parallelize_module(model, mesh, plan)


class Trainer:
    def __init__(self, steps=24):
        self.mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("tp",))
        self.steps = steps
        self.model = tensor_parallel(Model(self.mesh), self.mesh)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=2e-3)
        self.rng = torch.Generator().manual_seed(1)

    def batch(self):
        start = torch.randint(VOCAB, (4, 1), generator=self.rng)
        ids = (start + 3 * torch.arange(LENGTH + 1)) % VOCAB
        return ids[:, :-1], ids[:, 1:]

    def train(self):
        for step in range(self.steps):
            inputs, wanted = self.batch()
            loss = F.cross_entropy(self.model(inputs).flatten(0, 1), wanted.flatten())
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            if dist.get_rank() == 0 and step % 8 == 0:
                print(f"{step}: {loss.item():.4f}")


if __name__ == "__main__":
    dist.init_process_group("gloo")
    torch.manual_seed(8)
    Trainer().train()
    dist.destroy_process_group()
