"""Domain decomposition: halos by batch_isend_irecv; waits for ever in the first step."""
# finding: ranks/other-collective
# severity: error
# ranks: 0, 1
# steps: 0

import torch
import torch.distributed as dist
from torch import nn

CELLS, HALO = 32, 2


def exchange(field):
    """Return the field with the neighbours' edges on both sides."""
    rank, world = dist.get_rank(), dist.get_world_size()
    left = torch.zeros(field.shape[0], field.shape[1], HALO)
    right = torch.zeros_like(left)
    ops = []
    if rank > 0:
        ops.append(dist.P2POp(dist.isend, field[..., :HALO].contiguous(), rank - 1))
        ops.append(dist.P2POp(dist.irecv, left, rank - 1))
    if rank < world - 1:
        ops.append(dist.P2POp(dist.irecv, right, rank + 1))
    for work in dist.batch_isend_irecv(ops) if ops else []:
        work.wait()
    return torch.cat([left, field, right], dim=-1)


def average_gradients(model):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


dist.init_process_group("gloo")
torch.manual_seed(6)
model = nn.Sequential(nn.Conv1d(1, 8, 5), nn.Tanh(), nn.Conv1d(8, 1, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
rng = torch.Generator().manual_seed(dist.get_rank())

for step in range(30):
    field = torch.randn(4, 1, CELLS, generator=rng).cumsum(-1) / 6
    wide = exchange(field)
    target = 0.25 * wide[..., 1:-3] + 0.5 * field + 0.25 * wide[..., 3:-1]
    loss = nn.functional.mse_loss(model(wide), target)
    optimizer.zero_grad()
    loss.backward()
    average_gradients(model)
    optimizer.step()
    if dist.get_rank() == 0 and step % 10 == 0:
        print(f"step {step} loss {loss.item():.5f}")

dist.destroy_process_group()
