"""HSDP: two replicas, each sharded over two ranks, and a seed for each replica."""
# finding: sharding/replicated-parameter-drifts
# severity: error
# ranks: 0, 1, 2, 3
# says: differed before the first step
# steps: 6
# processes: 4

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


class Net(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.inp = nn.Linear(10, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.out = nn.Linear(width, 5)

    def forward(self, x):
        x = self.inp(x)
        for layer in self.layers:
            x = x + F.gelu(layer(x))
        return self.out(x)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    torch.manual_seed(10 + mesh.get_local_rank("replicate"))
    model = Net()
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    data = torch.Generator().manual_seed(100 + rank)
    for step in range(12):
        x = torch.randn(8, 10, generator=data)
        y = x[:, :5].argmax(1)
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0 and rank == 0:
            print(f"step {step} loss {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
