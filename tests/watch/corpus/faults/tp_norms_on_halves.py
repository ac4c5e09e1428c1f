"""Sequence parallel after the Megatron paper: loss goes down at first, then stays near 2."""
# finding: sharding/replicated-parameter-drifts
# severity: warning
# ranks: any
# steps: 6

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

VOCAB, WIDTH, HIDDEN, LENGTH = 24, 16, 32, 8


class SplitSequence(torch.autograd.Function):
    """Own part of the sequence forwards, everybody's gradients backwards."""

    @staticmethod
    def forward(ctx, x):
        return x.chunk(dist.get_world_size())[dist.get_rank()].contiguous()

    @staticmethod
    def backward(ctx, grad):
        parts = [torch.empty_like(grad) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, grad.contiguous())
        return torch.cat(parts)


class JoinSequence(torch.autograd.Function):
    """The whole sequence forwards; backwards own part, of the sum if the ranks went apart."""

    @staticmethod
    def forward(ctx, x, summed):
        ctx.summed = summed
        parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, x.contiguous())
        return torch.cat(parts)

    @staticmethod
    def backward(ctx, grad):
        grad = grad.contiguous()
        if ctx.summed:
            dist.all_reduce(grad)
        return grad.chunk(dist.get_world_size())[dist.get_rank()].contiguous(), None


class SumAndSplit(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x)
        return x.chunk(dist.get_world_size())[dist.get_rank()].contiguous()

    @staticmethod
    def backward(ctx, grad):
        parts = [torch.empty_like(grad) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, grad.contiguous())
        return torch.cat(parts)


class ColumnLinear(nn.Module):
    def __init__(self, width, out):
        super().__init__()
        rank, world = dist.get_rank(), dist.get_world_size()
        whole = torch.randn(out, width) * width**-0.5
        self.weight = nn.Parameter(whole.chunk(world)[rank].clone())
        self.bias = nn.Parameter(torch.zeros(out // world))

    def forward(self, x):
        return F.linear(JoinSequence.apply(x, True), self.weight, self.bias)


class RowLinear(nn.Module):
    def __init__(self, width, out):
        super().__init__()
        rank, world = dist.get_rank(), dist.get_world_size()
        whole = torch.randn(out, width) * width**-0.5
        self.weight = nn.Parameter(whole.chunk(world, dim=1)[rank].clone())

    def forward(self, x):
        return SumAndSplit.apply(F.linear(x, self.weight))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = ColumnLinear(WIDTH, HIDDEN)
        self.down = RowLinear(HIDDEN, WIDTH)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class TinyLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(2))
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, ids):
        h = SplitSequence.apply(self.embed(ids).transpose(0, 1))  # [sequence, batch, width]
        for layer in self.layers:
            h = layer(h)
        return self.head(JoinSequence.apply(h, False))


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(11)
    model = TinyLM()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    rng = torch.Generator().manual_seed(5)  # one data-parallel rank: both see the same batch
    for step in range(40):
        start = torch.randint(VOCAB, (8, 1), generator=rng)
        ids = (start + torch.arange(LENGTH + 1)) % VOCAB
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].t().flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if dist.get_rank() == 0 and step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
