"""Optimizer with two groups made before the wrap, warm-up and cosine schedule."""
# steps: 30

import math

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

CONFIG = {"epochs": 8, "batch": 8, "lr": 4e-3, "weight_decay": 0.05, "warmup": 6}


def param_groups(model, weight_decay):
    decay, plain = [], []
    for name, p in model.named_parameters():
        (plain if p.ndim < 2 or name.endswith("embed.weight") else decay).append(p)
    return [{"params": decay, "weight_decay": weight_decay}, {"params": plain, "weight_decay": 0.0}]


class Tagger(nn.Module):
    def __init__(self, vocab=26, width=20, tags=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.lstm = nn.LSTM(width, width, batch_first=True, bidirectional=True)
        self.norm = nn.LayerNorm(2 * width)
        self.tag = nn.Linear(2 * width, tags)

    def forward(self, letters):
        hidden, _ = self.lstm(self.embed(letters))
        return self.tag(self.norm(hidden))


dist.init_process_group("gloo")
torch.manual_seed(CONFIG["batch"])

letters = torch.randint(0, 26, (80, 7))
following = letters.roll(-1, dims=1)
tags = (following > letters).long() + (following % 2)
dataset = TensorDataset(letters, tags)
sampler = DistributedSampler(dataset, seed=4)
loader = DataLoader(dataset, batch_size=CONFIG["batch"], sampler=sampler)

model = Tagger()
optimizer = torch.optim.AdamW(param_groups(model, CONFIG["weight_decay"]), lr=CONFIG["lr"])
total = CONFIG["epochs"] * len(loader)


def factor(step):
    if step < CONFIG["warmup"]:
        return (step + 1) / CONFIG["warmup"]
    return 0.5 * (1 + math.cos(math.pi * (step - CONFIG["warmup"]) / (total - CONFIG["warmup"])))


scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
model = DDP(model)

for epoch in range(CONFIG["epochs"]):
    sampler.set_epoch(epoch)
    for text, tag in loader:
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(model(text).flatten(0, 1), tag.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_value_(model.parameters(), 0.5)
        optimizer.step()
        scheduler.step()
    if dist.get_rank() == 0:
        print(f"epoch {epoch} loss {loss.item():.4f} lr {scheduler.get_last_lr()[0]:.2e}")

dist.destroy_process_group()
