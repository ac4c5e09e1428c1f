"""seq2seq-ish tagger with batches by token budget (fairseq style)."""
# steps: 30

import random
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, Sampler


@dataclass
class Config:
    vocab: int = 60
    dim: int = 24
    max_tokens: int = 160
    sentences: int = 300
    epochs: int = 2
    lr: float = 2e-3
    seed: int = 21


class Sentences(Dataset):
    def __init__(self, cfg):
        r = random.Random(cfg.seed)
        # lengths are heavy tailed, as in real corpora
        self.items = []
        for i in range(cfg.sentences):
            n = min(60, max(4, int(r.lognormvariate(2.3, 0.8))))
            self.items.append([r.randrange(1, cfg.vocab) for _ in range(n)])

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        s = torch.tensor(self.items[i])
        return s, (s % 5)

    def size(self, i):
        return len(self.items[i])


class TokenBatchSampler(Sampler):
    """groups sentences so that len(batch) * longest <= max_tokens"""

    def __init__(self, ds, max_tokens, rank, world, seed=0):
        self.ds, self.max_tokens = ds, max_tokens
        self.rank, self.world, self.seed = rank, world, seed
        self.epoch = 0

    def set_epoch(self, e):
        self.epoch = e

    def _batches(self):
        order = list(range(len(self.ds)))
        random.Random(self.seed + self.epoch).shuffle(order)
        mine = order[self.rank :: self.world]
        mine.sort(key=self.ds.size)
        out, cur, longest = [], [], 0
        for i in mine:
            longest = max(longest, self.ds.size(i))
            if cur and longest * (len(cur) + 1) > self.max_tokens:
                out.append(cur)
                cur, longest = [], self.ds.size(i)
            cur.append(i)
        if cur:
            out.append(cur)
        random.Random(self.seed + self.epoch + 1).shuffle(out)
        return out[: self._common_length(len(out))]

    @staticmethod
    def _common_length(n):
        t = torch.tensor([n])
        dist.all_reduce(t, op=dist.ReduceOp.MIN)
        return int(t)

    def __iter__(self):
        return iter(self._batches())

    def __len__(self):
        return len(self._batches())


def collate(items):
    xs, ys = zip(*items)
    return pad_sequence(xs, batch_first=True), pad_sequence(
        ys, batch_first=True, padding_value=-100
    )


class Tagger(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.emb = nn.Embedding(cfg.vocab, cfg.dim, padding_idx=0)
        layer = nn.TransformerEncoderLayer(cfg.dim, 4, 48, dropout=0.0, batch_first=True)
        self.enc = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.cls = nn.Linear(cfg.dim, 5)

    def forward(self, x):
        return self.cls(self.enc(self.emb(x), src_key_padding_mask=x.eq(0)))


def train_one_epoch(model, loader, optimizer, epoch):
    loader.batch_sampler.set_epoch(epoch)
    n = 0
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x).transpose(1, 2), y, ignore_index=-100)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        n += 1
    print(
        f"rank {dist.get_rank()} epoch {epoch} done: {n} updates, loss {loss.item():.3f}",
        flush=True,
    )


if __name__ == "__main__":
    cfg = Config()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(cfg.seed)
    ds = Sentences(cfg)
    sampler = TokenBatchSampler(ds, cfg.max_tokens, dist.get_rank(), dist.get_world_size())
    loader = DataLoader(ds, batch_sampler=sampler, collate_fn=collate)
    model = nn.parallel.DistributedDataParallel(Tagger(cfg))
    optimizer = torch.optim.Adam(model.parameters(), cfg.lr, betas=(0.9, 0.98))
    for epoch in range(cfg.epochs):
        train_one_epoch(model, loader, optimizer, epoch)
    dist.destroy_process_group()
