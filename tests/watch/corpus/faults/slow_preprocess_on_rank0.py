"""With the full data set the job dies in the first barrier, with a timeout; the small one was fine."""
# finding: performance/long-wait
# severity: warning
# ranks: 0
# line: dist.barrier()  # the others wait for the file
# steps: 8

import os
import tempfile
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

TEXTS = ["the cat sat", "on the mat", "a dog barks", "at the moon", "all night long"] * 16
SECONDS_PER_SHARD = 0.9
SHARDS = 8


def tokenize(path):
    words = sorted({word for text in TEXTS for word in text.split()})
    rows = []
    for shard in range(SHARDS):
        time.sleep(SECONDS_PER_SHARD)  # the real one is a slow tokenizer
        for text in TEXTS[shard::SHARDS]:
            ids = [1 + words.index(word) for word in text.split()]
            rows.append(ids + [0] * (4 - len(ids)))
    torch.save(torch.tensor(rows), path)


def prepared(rank):
    name = (
        f"tokens-{os.environ.get('TORCHELASTIC_RUN_ID', 'x')}-{os.environ.get('MASTER_PORT', 0)}.pt"
    )
    path = os.path.join(tempfile.gettempdir(), name)
    if rank == 0:
        tokenize(path)
    dist.barrier()  # the others wait for the file
    tokens = torch.load(path)
    dist.barrier()
    if rank == 0:
        os.remove(path)
    return tokens


dist.init_process_group("gloo", timeout=timedelta(seconds=16))
rank = dist.get_rank()
torch.manual_seed(0)
tokens = prepared(rank)
ds = TensorDataset(tokens, (tokens > 0).float().sum(1, keepdim=True))
sampler = DistributedSampler(ds)
loader = DataLoader(ds, batch_size=8, sampler=sampler)
model = DDP(nn.Sequential(nn.EmbeddingBag(32, 16), nn.Tanh(), nn.Linear(16, 1)))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(3):
    sampler.set_epoch(epoch)
    for ids, length in loader:
        loss = nn.functional.mse_loss(model(ids), length)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"rank {rank} epoch {epoch} {loss.item():.4f}")
dist.destroy_process_group()
