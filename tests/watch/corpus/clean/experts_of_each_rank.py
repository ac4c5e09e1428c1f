"""Each rank has an expert of its own; router and norm are shared, and averaged by hand."""
# steps: 12

import torch
import torch.distributed as dist
from torch import nn


class Swap(torch.autograd.Function):
    """Send part i of the rows to rank i."""

    @staticmethod
    def forward(ctx, rows):
        out = torch.empty_like(rows)
        dist.all_to_all_single(out, rows.contiguous())
        return out

    @staticmethod
    def backward(ctx, grad):
        return Swap.apply(grad.contiguous())


class ExpertParallel(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.router = nn.Linear(width, dist.get_world_size(), bias=False)
        rng_state = torch.get_rng_state()
        torch.manual_seed(100 + dist.get_rank())
        self.expert = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        torch.set_rng_state(rng_state)

    def forward(self, x):
        h = self.norm(x)
        weights = self.router(h).softmax(-1)
        # As many rows for each expert: those that want it most.
        count = len(x) // dist.get_world_size()
        rows = torch.cat([weights[:, i].topk(count).indices for i in range(weights.shape[1])])
        share = torch.cat([weights[part, i] for i, part in enumerate(rows.split(count))])
        done = Swap.apply(self.expert(Swap.apply(h[rows])))
        return x.index_add(0, rows, done * share.unsqueeze(-1))


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    layer = ExpertParallel(8)
    out = nn.Linear(8, 1)
    shared = [*layer.norm.parameters(), *layer.router.parameters(), *out.parameters()]
    optimizer = torch.optim.AdamW([*layer.parameters(), *out.parameters()], lr=2e-3)
    rng = torch.Generator().manual_seed(rank)
    for step in range(24):
        x = torch.randn(16, 8, generator=rng)
        loss = nn.functional.mse_loss(out(layer(x)), x.prod(1, keepdim=True).tanh())
        optimizer.zero_grad()
        loss.backward()
        for parameter in shared:
            dist.all_reduce(parameter.grad)
            parameter.grad /= world
        for parameter in layer.expert.parameters():
            parameter.grad /= world
        optimizer.step()
        if rank == 0 and step % 8 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
