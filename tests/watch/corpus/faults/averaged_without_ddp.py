"""No DDP: gradients are averaged by hand, and tokens by each rank for itself."""
# finding: gradients/loss-denominators-differ
# severity: warning
# ranks: 0, 1
# line: loss = criterion(model(words).flatten(0, 1), tags.flatten())
# steps: 16

import os

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


class Tagger(nn.Module):
    def __init__(self, words=80, tags=7):
        super().__init__()
        self.embed = nn.Embedding(words, 24)
        self.conv = nn.Conv1d(24, 48, 3, padding=1)
        self.out = nn.Linear(48, tags)

    def forward(self, words):
        x = self.conv(self.embed(words).transpose(1, 2)).relu()
        return self.out(x.transpose(1, 2))


def average_gradients(model):
    for p in model.parameters():
        dist.all_reduce(p.grad, op=dist.ReduceOp.SUM)
        p.grad /= world_size


def sentences(shard, count=20):
    rng = torch.Generator().manual_seed(shard)
    for _ in range(count):
        words = torch.randint(0, 80, (6, 30), generator=rng)
        tags = words % 7
        # headlines in one shard, whole paragraphs in the other
        longest = 5 if shard == 0 else 30
        tags[:, longest:] = -100
        yield words, tags


torch.manual_seed(5)
model = Tagger()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step, (words, tags) in enumerate(sentences(rank)):
    loss = criterion(model(words).flatten(0, 1), tags.flatten())
    optimizer.zero_grad()
    loss.backward()
    tokens = (tags >= 0).sum()
    everywhere = tokens.clone()
    dist.all_reduce(everywhere)
    average_gradients(model)
    optimizer.step()
    if step % 5 == 0 and rank == 0:
        print(f"step {step}: {loss.item():.3f}, {int(everywhere)} tokens")
dist.destroy_process_group()
