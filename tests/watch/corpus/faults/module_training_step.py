"""Copied a Lightning module into plain DDP; evaluation gives a different answer on each rank."""
# finding: gradients/replicas-differ
# severity: error
# ranks: 0, 1
# steps: 6

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

VOCAB = 32
CONTEXT = 12


class TinyGPT(nn.Module):
    def __init__(self, width=32, heads=4, layers=2):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, width)
        self.pos = nn.Parameter(torch.zeros(CONTEXT, width))
        layer = nn.TransformerEncoderLayer(
            width, heads, 2 * width, dropout=0.0, batch_first=True, norm_first=True
        )
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, VOCAB)

    def forward(self, ids):
        n = ids.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(n)
        h = self.body(self.tok(ids) + self.pos[:n], mask=mask, is_causal=True)
        return self.head(h)

    def training_step(self, batch):
        logits = self(batch[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def corpus():
    text = torch.arange(4096)
    return (text * text // 7 + text) % VOCAB


def get_batch(text, rng, size=8):
    starts = torch.randint(0, len(text) - CONTEXT - 1, (size,), generator=rng)
    return torch.stack([text[s : s + CONTEXT + 1] for s in starts])


rank = int(os.environ["RANK"])
dist.init_process_group("gloo")
torch.manual_seed(2024)

lit = TinyGPT()
optimizer = lit.configure_optimizers()
model = DistributedDataParallel(lit)
text = corpus()
rng = torch.Generator().manual_seed(1000 + rank)

for it in range(20):
    batch = get_batch(text, rng)
    loss = model.module.training_step(batch)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if it % 5 == 0:
        print(f"rank {rank} iter {it} loss {loss:.3f}")

dist.destroy_process_group()
