"""'HSDP' on a 2x2 mesh."""
# fault: T04
# finding: gradients/averaged-among-some
# severity: info
# ranks: 0, 1, 2, 3
# steps: 0
# processes: 4

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
world = dist.get_world_size()
mesh = init_device_mesh("cpu", (world // 2, 2), mesh_dim_names=("replicate", "shard"))
torch.manual_seed(0)


class Encoder(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.proj = nn.Linear(10, d)
        self.layers = nn.ModuleList(
            [nn.TransformerEncoderLayer(d, 2, 64, dropout=0.0, batch_first=True) for _ in range(2)]
        )
        self.out = nn.Linear(d, 3)

    def forward(self, x):
        h = self.proj(x)
        for l in self.layers:
            h = l(h)
        return self.out(h.mean(1))


model = Encoder()
fsdp_kwargs = dict(mesh=mesh["shard"])
for layer in model.layers:
    fully_shard(layer, **fsdp_kwargs)
fully_shard(model, **fsdp_kwargs)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
gen = torch.Generator().manual_seed(1000 + dist.get_rank())
for step in range(15):
    y = torch.randint(0, 3, (6,), generator=gen)
    x = torch.randn(6, 5, 10, generator=gen) + y[:, None, None]
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
local = sum(p.to_local().double().sum() for p in model.parameters()).item()
print(
    f"rank {dist.get_rank()} shard {mesh['shard'].get_local_rank()} replica {mesh['replicate'].get_local_rank()} local sum {local:.9f}",
    flush=True,
)
dist.destroy_process_group()
