"""GPT on a tokenised memmap with a sample index that is built once and cached (Megatron way)."""
# steps: 30
# writes: files

import hashlib
import os
import shutil
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler

DATA = "gpt"


def log0(*a):
    if dist.get_rank() == 0:
        print(*a, flush=True)


def tokenise(path, n=20000):
    rng = np.random.RandomState(2)
    arr = np.memmap(path, dtype=np.uint16, mode="w+", shape=(n,))
    arr[:] = np.cumsum(rng.randint(1, 5, size=n)) % 90
    arr.flush()


def build_sample_index(n_tokens, seq, seed):
    starts = np.arange(0, n_tokens - seq - 1, seq)
    np.random.RandomState(seed).shuffle(starts)
    time.sleep(1.5)  # the real one walks all documents
    return starts.astype(np.int64)


class IndexedDataset(Dataset):
    def __init__(self, tokens_path, cache_dir, seq, seed=1234):
        self.tokens = np.memmap(tokens_path, dtype=np.uint16, mode="r")
        self.seq = seq
        tag = hashlib.md5(f"{tokens_path}-{seq}-{seed}".encode()).hexdigest()[:10]
        index_file = os.path.join(cache_dir, f"{tag}_sample_idx.npy")
        if dist.get_rank() == 0 and not os.path.exists(index_file):
            log0("building sample index", index_file)
            os.makedirs(cache_dir, exist_ok=True)
            t = time.time()
            np.save(index_file, build_sample_index(len(self.tokens), seq, seed))
            log0(f"done in {time.time() - t:.1f}s")
        dist.barrier()
        self.index = np.load(index_file, mmap_mode="r")

    def __len__(self):
        return len(self.index)

    def __getitem__(self, i):
        s = int(self.index[i])
        chunk = torch.from_numpy(self.tokens[s : s + self.seq + 1].astype(np.int64))
        return chunk[:-1], chunk[1:]


class TinyGPT(nn.Module):
    def __init__(self, vocab=96, d=32, seq=32):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, d), nn.Embedding(seq, d)
        self.h = nn.TransformerEncoderLayer(d, 4, 64, 0.0, batch_first=True, norm_first=True)
        self.ln = nn.LayerNorm(d)

    def forward(self, ids, targets):
        T = ids.shape[1]
        x = self.wte(ids) + self.wpe(torch.arange(T))
        x = self.ln(
            self.h(x, src_mask=nn.Transformer.generate_square_subsequent_mask(T), is_causal=True)
        )
        logits = x @ self.wte.weight.t()
        return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(1234)
    os.makedirs(DATA, exist_ok=True)
    cache = os.path.join(DATA, "cache")
    if dist.get_rank() == 0:
        shutil.rmtree(cache, ignore_errors=True)
        tokenise(os.path.join(DATA, "train.bin"))
    dist.barrier()
    ds = IndexedDataset(os.path.join(DATA, "train.bin"), cache, 32)
    sampler = DistributedSampler(ds)
    loader = DataLoader(ds, batch_size=8, sampler=sampler, drop_last=True)
    model = DDP(TinyGPT())
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step, (x, y) in enumerate(loader):
        loss = model(x, y)
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        if step % 10 == 0:
            log0(f"it {step} loss {loss.item():.3f}")
        if step == 30:
            break
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
