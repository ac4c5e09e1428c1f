"""Instruction tuning data: tokenise once on the main process, the others load the cache."""
# steps: 30
# writes: files

import contextlib
import hashlib
import os
import shutil
import tempfile
import time
from collections import Counter
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

SEQ = 16
RUN_ID = os.environ.get("TORCHELASTIC_RUN_ID", "x") + str(os.getppid())
CACHE = os.path.join(tempfile.gettempdir(), "tok-" + hashlib.md5(RUN_ID.encode()).hexdigest()[:8])


@contextlib.contextmanager
def main_process_first(desc=""):
    if dist.get_rank() != 0:
        dist.barrier()
    t = time.time()
    yield
    if dist.get_rank() == 0:
        print(f"[{desc}] took {time.time() - t:.1f}s", flush=True)
        dist.barrier()


def raw_corpus(n=400):
    words = "open source models learn to follow instructions when trained on many tasks".split()
    return [" ".join(words[(i * j) % len(words)] for j in range(1, 30)) for i in range(n)]


def bpe_like(docs, merges, budget):
    """a slow, pure python tokeniser training (real ones take half an hour on big data)"""
    seqs = [list(d) for d in docs]
    t0 = time.time()
    done = 0
    while done < merges or time.time() - t0 < budget:
        pairs = Counter()
        for s in seqs:
            pairs.update(zip(s, s[1:]))
        a, b = max(sorted(pairs), key=pairs.get)
        if done < merges:
            out = []
            for s in seqs:
                i, r = 0, []
                while i < len(s):
                    if i + 1 < len(s) and s[i] == a and s[i + 1] == b:
                        r.append(a + b)
                        i += 2
                    else:
                        r.append(s[i])
                        i += 1
                out.append(r)
            seqs = out
            done += 1
    vocab = {t: k for k, t in enumerate(sorted({t for s in seqs for t in s}))}
    return [[vocab[t] for t in s] for s in seqs], len(vocab)


def prepare(budget):
    path = os.path.join(CACHE, "train.pt")
    if not os.path.exists(path):
        ids, n = bpe_like(raw_corpus(), merges=4, budget=budget)
        flat = torch.tensor([t for s in ids for t in s])
        flat = flat[: len(flat) // (SEQ + 1) * (SEQ + 1)].view(-1, SEQ + 1)[:1024]
        os.makedirs(CACHE, exist_ok=True)
        torch.save({"ids": flat.clone(), "vocab": n}, path)
    return torch.load(path)


class Tiny(nn.Module):
    def __init__(self, vocab, d=32):
        super().__init__()
        self.e = nn.Embedding(vocab, d)
        self.conv = nn.Conv1d(d, d, 3)
        self.o = nn.Linear(d, vocab)

    def forward(self, x):
        h = self.e(x).transpose(1, 2)
        h = torch.relu(self.conv(F.pad(h, (2, 0)))).transpose(1, 2)
        return self.o(h)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(minutes=60))
    with main_process_first("tokenise"):
        blob = prepare(budget=20.0)
    ds = TensorDataset(blob["ids"][:, :-1], blob["ids"][:, 1:])
    sampler = DistributedSampler(ds, drop_last=True)
    dl = DataLoader(ds, batch_size=32, sampler=sampler, drop_last=True)
    torch.manual_seed(0)
    net = DDP(Tiny(blob["vocab"]))
    opt = torch.optim.AdamW(net.parameters(), 3e-3)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in dl:
            loss = F.cross_entropy(net(x).transpose(1, 2), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        if dist.get_rank() == 0:
            print("epoch", epoch, "loss", f"{loss.item():.3f}")
    dist.barrier()
    if dist.get_rank() == 0:
        shutil.rmtree(CACHE, ignore_errors=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
