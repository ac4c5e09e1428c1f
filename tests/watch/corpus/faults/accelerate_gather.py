"""Text classification with accelerate, eval after every epoch."""
# fault: A10
# finding: data/padded-evaluation
# severity: info
# ranks: any
# steps: 30
# needs: accelerate

import argparse
import random

import torch
import torch.nn as nn
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, Dataset

POS = "good great fine lovely superb happy".split()
NEG = "bad awful poor sad terrible weak".split()
NEU = "the a film plot actor scene story music".split()
VOCAB = {w: i + 1 for i, w in enumerate(POS + NEG + NEU)}


class Reviews(Dataset):
    def __init__(self, n, seed):
        r = random.Random(seed)
        self.rows = []
        for _ in range(n):
            y = r.randint(0, 1)
            words = [r.choice(NEU) for _ in range(8)] + [
                r.choice(POS if y else NEG) for _ in range(2)
            ]
            r.shuffle(words)
            self.rows.append((words, y))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        words, y = self.rows[i]
        return {"input_ids": torch.tensor([VOCAB[w] for w in words]), "label": y, "idx": i}


class BagOfWords(nn.Module):
    def __init__(self, d=16):
        super().__init__()
        self.emb = nn.EmbeddingBag(len(VOCAB) + 1, d, mode="mean")
        self.out = nn.Linear(d, 2)

    def forward(self, ids):
        return self.out(self.emb(ids))


def evaluate(accelerator, model, loader):
    model.eval()
    preds, refs = [], []
    for batch in loader:
        with torch.no_grad():
            p = model(batch["input_ids"]).argmax(-1)
        p, y = accelerator.gather((p, batch["label"]))
        preds.append(p)
        refs.append(y)
    preds, refs = torch.cat(preds), torch.cat(refs)
    model.train()
    return (preds == refs).float().mean().item(), len(refs)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--batch-size", type=int, default=8)
    args = ap.parse_args()
    torch.set_num_threads(1)
    accelerator = Accelerator(cpu=True)
    set_seed(5)
    train = DataLoader(Reviews(128, 0), batch_size=args.batch_size, shuffle=True, drop_last=True)
    val = DataLoader(Reviews(45, 1), batch_size=args.batch_size)
    model = BagOfWords()
    opt = torch.optim.Adam(model.parameters(), lr=2e-2)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: max(0.1, 1 - s / 200))
    model, opt, train, val, sched = accelerator.prepare(model, opt, train, val, sched)
    for epoch in range(args.epochs):
        for batch in train:
            loss = nn.functional.cross_entropy(model(batch["input_ids"]), batch["label"])
            opt.zero_grad()
            accelerator.backward(loss)
            opt.step()
            sched.step()
        acc, n = evaluate(accelerator, model, val)
        accelerator.print(f"epoch {epoch}: loss {loss.item():.4f} val acc {acc:.4f} on {n} reviews")
    accelerator.end_training()


if __name__ == "__main__":
    main()
