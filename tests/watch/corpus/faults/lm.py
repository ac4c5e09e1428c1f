"""Supervised fine-tuning of a toy causal LM with prompt masking (labels = -100 on the prompt)."""
# fault: G09
# finding: gradients/loss-denominators-differ
# severity: warning
# ranks: 0, 1
# line: return F.cross_entropy(shift_logits, shift_labels, ignore_index=IGNORE)
# steps: 30

import argparse
import json
import math

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler

IGNORE = -100


class SFTDataset(Dataset):
    """prompt of 4..12 tokens, answer of 2..40 tokens (repeat the prompt)"""

    def __init__(self, n=640, vocab=40, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.rows = []
        for _ in range(n):
            pl = int(torch.randint(4, 12, (1,), generator=g))
            al = int(2 + 38 * torch.rand(1, generator=g) ** 3)
            prompt = torch.randint(3, vocab, (pl,), generator=g)
            ans = prompt.repeat(math.ceil(al / pl))[:al]
            self.rows.append((prompt, ans))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(batch):
    width = max(len(p) + len(a) for p, a in batch)
    ids = torch.zeros(len(batch), width, dtype=torch.long)
    labels = torch.full_like(ids, IGNORE)
    for r, (p, a) in enumerate(batch):
        ids[r, : len(p) + len(a)] = torch.cat([p, a])
        labels[r, len(p) : len(p) + len(a)] = a
    return {"input_ids": ids, "labels": labels}


class CausalLM(nn.Module):
    def __init__(self, vocab=40, d=48, layers=2):
        super().__init__()
        self.tok = nn.Embedding(vocab, d)
        self.pos = nn.Embedding(96, d)
        self.h = nn.ModuleList(
            nn.TransformerEncoderLayer(d, 4, 96, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(layers)
        )
        self.head = nn.Linear(d, vocab)

    def forward(self, input_ids):
        T = input_ids.size(1)
        x = self.tok(input_ids) + self.pos(torch.arange(T))
        mask = nn.Transformer.generate_square_subsequent_mask(T)
        for blk in self.h:
            x = blk(x, src_mask=mask, is_causal=True)
        return self.head(x)


def compute_loss(logits, labels):
    shift_logits = logits[:, :-1].reshape(-1, logits.size(-1))
    shift_labels = labels[:, 1:].reshape(-1)
    return F.cross_entropy(shift_logits, shift_labels, ignore_index=IGNORE)


class SFTTrainer:
    def __init__(self, model, args, data):
        self.args = args
        self.model = DDP(model)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=args.learning_rate)
        self.sampler = DistributedSampler(data, shuffle=True, seed=args.seed)
        self.loader = DataLoader(
            data,
            args.per_device_train_batch_size,
            sampler=self.sampler,
            collate_fn=collate,
            drop_last=True,
        )
        self.state = {"global_step": 0, "log_history": []}

    def training_step(self, batch):
        self.model.train()
        loss = compute_loss(self.model(batch["input_ids"]), batch["labels"])
        loss.backward()
        gn = nn.utils.clip_grad_norm_(self.model.parameters(), self.args.max_grad_norm)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach(), gn

    def train(self):
        for epoch in range(self.args.num_train_epochs):
            self.sampler.set_epoch(epoch)
            for batch in self.loader:
                loss, gn = self.training_step(batch)
                self.state["global_step"] += 1
                if self.state["global_step"] % self.args.logging_steps == 0:
                    avg = loss.clone()
                    dist.all_reduce(avg)
                    rec = {
                        "step": self.state["global_step"],
                        "loss": avg.item() / dist.get_world_size(),
                        "grad_norm": float(gn),
                    }
                    self.state["log_history"].append(rec)
                    if dist.get_rank() == 0:
                        print(json.dumps(rec))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--per_device_train_batch_size", type=int, default=8)
    p.add_argument("--learning_rate", type=float, default=1e-3)
    p.add_argument("--num_train_epochs", type=int, default=1)
    p.add_argument("--logging_steps", type=int, default=10)
    p.add_argument("--max_grad_norm", type=float, default=1.0)
    p.add_argument("--seed", type=int, default=3)
    args = p.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(args.seed)
    SFTTrainer(CausalLM(), args, SFTDataset()).train()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
