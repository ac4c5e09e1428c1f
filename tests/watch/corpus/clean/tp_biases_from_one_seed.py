"""Column- and row-parallel layers by hand: matrices from a generator of each rank, the rest from one
seed for all, and so the parts of a column's bias start out alike."""
# steps: 6
# silent: gradients/replicas-differ, data/same-batches

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, grad):
        grad = grad.contiguous()
        dist.all_reduce(grad)
        return grad


class Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.contiguous().clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad


class ParallelMLP(nn.Module):
    def __init__(self, width, own):
        super().__init__()
        part = 4 * width // dist.get_world_size()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, part)
        self.down = nn.Linear(part, width, bias=False)
        nn.init.normal_(self.up.weight, std=0.05, generator=own)
        nn.init.normal_(self.down.weight, std=0.05, generator=own)

    def forward(self, x):
        return x + Sum.apply(self.down(F.gelu(self.up(Copy.apply(self.norm(x))))))


class TinyLM(nn.Module):
    def __init__(self, own, vocab=32, width=16):
        super().__init__()
        self.tok = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(ParallelMLP(width, own) for _ in range(2))
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        x = self.tok(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


dist.init_process_group("gloo")
torch.manual_seed(1234)
model = TinyLM(torch.Generator().manual_seed(99 + dist.get_rank()))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
text = torch.randint(0, 32, (64, 9), generator=torch.Generator().manual_seed(7))
for step, (ids,) in enumerate(DataLoader(TensorDataset(text), batch_size=4)):
    loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 0:
        print(f"rank {dist.get_rank()} step {step} loss {loss.item():.4f}")
dist.destroy_process_group()
