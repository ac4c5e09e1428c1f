"""Fine-tune a text classifier; predictions are gathered over the ranks after each epoch."""
# steps: 30

import argparse
import json
import random

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler, Sampler

PAD, VOCAB = 0, 60


class Reviews(Dataset):
    """fake reviews; label = 'positive' word wins over 'negative' word"""

    def __init__(self, n, seed):
        r = random.Random(seed)
        self.items = []
        for _ in range(n):
            toks = [r.randrange(10, VOCAB) for _ in range(r.randrange(5, 14))]
            lab = r.randrange(2)
            for _ in range(3):
                toks[r.randrange(len(toks))] = 3 + lab
            self.items.append((toks, lab))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class ShardSampler(Sampler):
    """every item exactly once over all ranks: no padding, so evaluation is exact"""

    def __init__(self, ds):
        self.idx = range(dist.get_rank(), len(ds), dist.get_world_size())

    def __iter__(self):
        return iter(self.idx)

    def __len__(self):
        return len(self.idx)


def collate(rows):
    width = max(len(t) for t, _ in rows)
    ids = torch.tensor([t + [PAD] * (width - len(t)) for t, _ in rows])
    return ids, torch.tensor([l for _, l in rows])


class Bag(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.fc = nn.Sequential(nn.Linear(dim, 32), nn.GELU(), nn.Linear(32, 2))

    def forward(self, ids):
        mask = (ids != PAD).unsqueeze(-1)
        return self.fc((self.emb(ids) * mask).sum(1) / mask.sum(1))


def gather_cat(t):
    """concatenate a tensor over all ranks"""
    world = dist.get_world_size()
    sizes = [torch.zeros(1, dtype=torch.long) for _ in range(world)]
    dist.all_gather(sizes, torch.tensor([t.shape[0]]))
    longest = int(max(s.item() for s in sizes))
    padded = t.new_zeros((longest,) + t.shape[1:])
    padded[: t.shape[0]] = t
    parts = [torch.zeros_like(padded) for _ in range(world)]
    dist.all_gather(parts, padded)
    return torch.cat([p[: int(s)] for p, s in zip(parts, sizes)])


class Evaluator:
    def __init__(self, loader):
        self.loader = loader

    @torch.no_grad()
    def __call__(self, model):
        model.eval()
        preds, labels = [], []
        for ids, y in self.loader:
            preds.append(model(ids).argmax(-1))
            labels.append(y)
        preds, labels = gather_cat(torch.cat(preds)), gather_cat(torch.cat(labels))
        model.train()
        tp = ((preds == 1) & (labels == 1)).sum().item()
        f1 = 2 * tp / max(1, (preds == 1).sum().item() + (labels == 1).sum().item())
        return {"n": len(preds), "acc": (preds == labels).float().mean().item(), "f1": f1}


def main(argv=None):
    ap = argparse.ArgumentParser()
    ap.add_argument("--bs", type=int, default=32)
    ap.add_argument("--epochs", type=int, default=2)
    args = ap.parse_args(argv)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    train, dev = Reviews(512, 1), Reviews(101, 2)
    sampler = DistributedSampler(train)
    loader = DataLoader(train, args.bs, sampler=sampler, collate_fn=collate, drop_last=True)
    evaluate = Evaluator(DataLoader(dev, args.bs, sampler=ShardSampler(dev), collate_fn=collate))
    model = DDP(Bag())
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    for e in range(args.epochs):
        sampler.set_epoch(e)
        for ids, y in loader:
            opt.zero_grad()
            F.cross_entropy(model(ids), y).backward()
            opt.step()
        scores = evaluate(model)
        if dist.get_rank() == 0:
            print(json.dumps({"epoch": e, **scores}))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
