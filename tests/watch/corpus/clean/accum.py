"""Char-level GRU language model with gradient accumulation."""
# steps: 30

import argparse
import contextlib
import math
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler

TEXT = (
    "the quick brown fox jumps over the lazy dog and then, tired of it, sleeps under a tree; "
    "nobody knows why the dog did not mind. "
) * 40


class CharWindows(Dataset):
    def __init__(self, text, width):
        self.vocab = sorted(set(text))
        lut = {c: i for i, c in enumerate(self.vocab)}
        self.ids = torch.tensor([lut[c] for c in text])
        self.width = width

    def __len__(self):
        return (len(self.ids) - 1) // 8 - self.width // 8

    def __getitem__(self, i):
        s = i * 8
        return self.ids[s : s + self.width], self.ids[s + 1 : s + 1 + self.width]


class CharRNN(nn.Module):
    def __init__(self, v, h=64):
        super().__init__()
        self.emb = nn.Embedding(v, 32)
        self.rnn = nn.GRU(32, h, 2, batch_first=True)
        self.out = nn.Linear(h, v)

    def forward(self, x):
        y, _ = self.rnn(self.emb(x))
        return self.out(y)


class Accumulator:
    """decides when gradients are exchanged"""

    def __init__(self, model, k):
        self.model, self.k, self.n = model, k, 0

    def context(self):
        self.n += 1
        if self.n % self.k:
            return self.model.no_sync()
        return contextlib.nullcontext()

    @property
    def boundary(self):
        return self.n % self.k == 0


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--accum", default=4, type=int)
    ap.add_argument("--epochs", default=3, type=int)
    ap.add_argument("--bs", default=4, type=int)
    args = ap.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    ds = CharWindows(TEXT, 48)
    dl = DataLoader(ds, args.bs, sampler=DistributedSampler(ds), drop_last=True)
    model = DDP(CharRNN(len(ds.vocab)))
    opt = torch.optim.RMSprop(model.parameters(), lr=2e-3)
    ce = nn.CrossEntropyLoss()
    t0 = time.time()
    for ep in range(args.epochs):
        dl.sampler.set_epoch(ep)
        acc = Accumulator(model, args.accum)
        usable = len(dl) // args.accum * args.accum
        for i, (x, y) in enumerate(dl):
            if i >= usable:
                break
            with acc.context():
                logits = model(x)
                loss = ce(logits.flatten(0, 1), y.flatten()) / args.accum
                loss.backward()
            if acc.boundary:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                opt.step()
                opt.zero_grad()
        if dist.get_rank() == 0:
            print(
                f"epoch {ep} ppl {math.exp(loss.item() * args.accum):.2f} {time.time() - t0:.1f}s"
            )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
