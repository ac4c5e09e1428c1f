"""Each rank makes the learning rate of its own progress; an optimizer that shards by hand hides it in large weights."""
# finding: gradients/replicas-differ
# severity: warning
# ranks: 0, 1
# line: optimizer = ShardedMomentum(model.parameters(), lr=0.1)
# says: optimizer's lr
# steps: 0

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
SMALL = 1024


class ShardedMomentum(torch.optim.Optimizer):
    """Large gradients are reduced and scattered, and rows of the weights gathered; small ones are averaged."""

    def __init__(self, parameters, lr):
        super().__init__(parameters, dict(lr=lr))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            waiting = [(each, *self._reduced(each)) for each in group["params"]]
            for parameter, gradient, handle in waiting:
                if handle is not None:
                    handle.wait()
                self._update(parameter, gradient, group["lr"])

    def _reduced(self, parameter):
        gradient = parameter.grad
        if parameter.numel() < SMALL:
            return gradient, dist.all_reduce(gradient, async_op=True)
        part = torch.empty_like(gradient[: gradient.shape[0] // world])
        handle = dist.reduce_scatter_tensor(part, gradient, op=dist.ReduceOp.SUM, async_op=True)
        return part, handle

    def _update(self, parameter, gradient, lr):
        average = self.state[parameter].setdefault("average", torch.zeros_like(gradient))
        average.lerp_(gradient / world, 0.1)
        if gradient.shape == parameter.shape:
            parameter.sub_(average, alpha=lr)
            return
        rows = parameter.shape[0] // world
        own = parameter[rank * rows : (rank + 1) * rows]
        own.sub_(average, alpha=lr)
        dist.all_gather_into_tensor(parameter, own.clone())


model = nn.Sequential(nn.Linear(64, 128), nn.LayerNorm(128), nn.GELU(), nn.Linear(128, 64))
optimizer = ShardedMomentum(model.parameters(), lr=0.1)
draws = torch.Generator().manual_seed(100 + rank)
for step in range(12):
    for group in optimizer.param_groups:
        group["lr"] = 0.1 * (1 - step * (16 + rank) / 400)
    inputs = torch.randn(16, 64, generator=draws)
    loss = nn.functional.mse_loss(model(inputs), inputs.roll(1, 1))
    loss.backward()
    optimizer.step()
    model.zero_grad(set_to_none=True)
dist.destroy_process_group()
