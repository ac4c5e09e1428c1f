"""Sequence tagger with torch.compile around DDP, length-bucketed batches (dynamic shapes), compiled eval."""
# steps: 30
# writes: files

import os
import random

import torch
import torch._dynamo
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

BACKEND = os.environ.get("TAGGER_BACKEND", "aot_eager")
PAD = 0


class Corpus:
    """sentences of ids 1..30; tag = 1 if the token occurred before in the sentence"""

    def __init__(self, n, seed):
        rnd = random.Random(seed)
        self.items = []
        for _ in range(n):
            length = rnd.choice([6, 9, 12, 15])
            toks = [rnd.randint(1, 20) for _ in range(length)]
            tags = [int(t in toks[:i]) for i, t in enumerate(toks)]
            self.items.append((toks, tags))

    def __len__(self):
        return len(self.items)


class BucketSampler:
    """Batches of sentences of similar length, dealt to the ranks in turn; the number of batches is the same."""

    def __init__(self, corpus, batch, rank, world, seed):
        self.c, self.batch, self.rank, self.world, self.seed = corpus, batch, rank, world, seed
        self.epoch = 0

    def set_epoch(self, e):
        self.epoch = e

    def __iter__(self):
        rnd = random.Random(f"{self.seed}-{self.epoch}")  # equal on all ranks
        order = list(range(len(self.c)))
        rnd.shuffle(order)
        order.sort(key=lambda i: len(self.c.items[i][0]))  # stable
        chunks = [
            order[i : i + self.batch] for i in range(0, len(order) - self.batch + 1, self.batch)
        ]
        rnd.shuffle(chunks)
        chunks = chunks[: len(chunks) // self.world * self.world]
        yield from chunks[self.rank :: self.world]

    def __len__(self):
        return len(self.c) // self.batch // self.world


def collate(items):
    T = max(len(t) for t, _ in items)
    x = torch.full((len(items), T), PAD)
    y = torch.full((len(items), T), -100)
    for i, (t, g) in enumerate(items):
        x[i, : len(t)] = torch.tensor(t)
        y[i, : len(g)] = torch.tensor(g)
    return x, y


class Tagger(nn.Module):
    def __init__(self, d=24):
        super().__init__()
        self.emb = nn.Embedding(32, d, padding_idx=PAD)
        self.pos = nn.Embedding(32, d)
        self.q, self.k, self.v = (nn.Linear(d, d) for _ in range(3))
        self.ff = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 48), nn.GELU(), nn.Linear(48, d))
        self.out = nn.Linear(d, 2)

    def forward(self, x):
        h = self.emb(x) + self.pos(torch.arange(x.shape[1], device=x.device))
        att = self.q(h) @ self.k(h).transpose(1, 2) / h.shape[-1] ** 0.5
        att = att.masked_fill((x == PAD)[:, None, :], -1e4).softmax(-1)
        h = h + att @ self.v(h)
        return self.out(h + self.ff(h))


def token_loss(logits, y):
    """Sum over my tokens, divided by the tokens of ALL ranks; times world since DDP divides by it."""
    total = (y != -100).sum()
    dist.all_reduce(total)
    s = nn.functional.cross_entropy(
        logits.flatten(0, 1), y.flatten(), ignore_index=-100, reduction="sum"
    )
    return s * dist.get_world_size() / total


class Runner:
    def __init__(self, rank, world):
        torch.manual_seed(17)
        self.rank, self.world = rank, world
        self.net = DDP(Tagger())
        self.model = torch.compile(self.net, dynamic=True, backend=BACKEND)
        self.eval_fn = torch.compile(self.net.module, dynamic=True, backend=BACKEND)
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=4e-3)
        self.train_set, self.test_set = Corpus(96, 1), Corpus(26, 2)
        self.sampler = BucketSampler(self.train_set, 6, rank, world, seed=4)

    def epoch(self, e):
        self.sampler.set_epoch(e)
        self.net.train()
        tot = torch.zeros(())
        for chunk in self.sampler:
            x, y = collate([self.train_set.items[i] for i in chunk])
            loss = token_loss(self.model(x), y)
            self.opt.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
            self.opt.step()
            tot += loss.detach()
        dist.all_reduce(tot)
        return tot.item() / self.world / len(self.sampler)

    @torch.no_grad()
    def test(self):
        self.net.eval()
        right = torch.zeros(2, dtype=torch.long)
        for i in range(self.rank, len(self.test_set), self.world):
            x, y = collate([self.test_set.items[i]])
            p = self.eval_fn(x).argmax(-1)
            right += torch.stack([(p == y).sum(), torch.tensor(y.numel())])
        dist.all_reduce(right)
        return right.tolist()


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch._dynamo.config.cache_size_limit = 16
    r = Runner(dist.get_rank(), dist.get_world_size())
    for e in range(3):
        loss = r.epoch(e)
        ok, n = r.test()
        if r.rank == 0:
            print(f"epoch {e} loss {loss:.4f} tokens right {ok}/{n}", flush=True)
    if r.rank == 0:
        torch.save(r.net.module.state_dict(), "tagger.pt")
    print(
        f"rank {r.rank} checksum {sum(p.double().abs().sum() for p in r.net.parameters()).item():.5f}"
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
