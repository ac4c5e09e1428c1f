"""Rank 0 builds a vocabulary; others poll for the finished file. Then a dataset that ignores its index; the sampler's epoch does not matter."""
# steps: 0
# writes: files

import json
import os
import pathlib
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler

VOCAB = pathlib.Path("vocab.json")


def vocabulary(rank):
    if rank == 0:
        time.sleep(0.3)
        tmp = VOCAB.with_suffix(".part")
        tmp.write_text(json.dumps({c: i for i, c in enumerate("abcdefghij")}))
        os.replace(tmp, VOCAB)
    while True:
        try:
            return json.loads(VOCAB.read_text())
        except FileNotFoundError:
            time.sleep(0.05)


class RandomCrops(Dataset):
    """a crop anywhere in the corpus; the index only counts"""

    def __init__(self, vocab, text, n=160, T=12):
        self.ids = torch.tensor([vocab[c] for c in text])
        self.n, self.T = n, T

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        k = int(torch.randint(0, len(self.ids) - self.T - 1, (1,)))
        return self.ids[k : k + self.T], self.ids[k + 1 : k + self.T + 1]


class Bigram(nn.Module):
    def __init__(self, v):
        super().__init__()
        self.e, self.o = nn.Embedding(v, 16), nn.Linear(16, v)

    def forward(self, x):
        return self.o(self.e(x))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    if rank == 0:
        VOCAB.unlink(missing_ok=True)
    dist.barrier()
    vocab = vocabulary(rank)
    text = "".join("abcdefghij"[(i * i + i // 3) % 10] for i in range(4000))
    torch.manual_seed(100 + rank)
    ds = RandomCrops(vocab, text)
    dl = DataLoader(ds, 8, sampler=DistributedSampler(ds))
    m = nn.parallel.DistributedDataParallel(Bigram(len(vocab)))
    opt = torch.optim.AdamW(m.parameters(), 1e-2)
    for epoch in range(3):
        for x, y in dl:
            opt.zero_grad()
            nn.functional.cross_entropy(m(x).flatten(0, 1), y.flatten()).backward()
            opt.step()
    dist.barrier()
    dist.destroy_process_group()


main()
