"""Mini GPT trained with a callback system; a callback writes samples from time to time."""
# fault: C02
# finding: ranks/other-collective
# severity: error
# ranks: 0, 1
# line: logits = model(idx[:, -CTX:])
# steps: 30

from __future__ import annotations

import math
import sys

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

VOCAB, CTX, DIM = 27, 16, 32


class PositionalEncoding(nn.Module):
    def __init__(self, dim, maxlen=64):
        super().__init__()
        pos = torch.arange(maxlen).unsqueeze(1)
        div = torch.exp(torch.arange(0, dim, 2) * (-math.log(10000.0) / dim))
        pe = torch.zeros(maxlen, dim)
        pe[:, 0::2] = torch.sin(pos * div)
        pe[:, 1::2] = torch.cos(pos * div)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[: x.size(1)]


class MiniGPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, DIM)
        self.pos = PositionalEncoding(DIM)
        layer = nn.TransformerEncoderLayer(
            DIM, 2, 64, dropout=0.0, batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Linear(DIM, VOCAB)

    def forward(self, idx):
        mask = nn.Transformer.generate_square_subsequent_mask(idx.size(1))
        return self.head(self.blocks(self.pos(self.tok(idx)), mask=mask, is_causal=True))


class Callback:
    def on_step_end(self, loop, step, loss): ...
    def on_train_end(self, loop): ...


class LossPrinter(Callback):
    def __init__(self, every=5):
        self.every = every

    def on_step_end(self, loop, step, loss):
        if loop.rank == 0 and step % self.every == 0:
            print(f"step {step:3d} loss {loss:.3f}")


class SampleWriter(Callback):
    """greedy continuation of a fixed prompt, on rank zero only"""

    def __init__(self, every, prompt):
        self.every, self.prompt = every, prompt

    @torch.no_grad()
    def generate(self, model, n=4):
        idx = self.prompt.clone()
        for _ in range(n):
            logits = model(idx[:, -CTX:])
            idx = torch.cat([idx, logits[:, -1:].argmax(-1)], dim=1)
        return "".join(chr(96 + int(t)) if t else " " for t in idx[0])

    def on_step_end(self, loop, step, loss):
        if loop.rank != 0 or step % self.every or step == 0:
            return
        loop.model.eval()
        text = self.generate(loop.model)
        loop.model.train()
        print("sample:", repr(text))


class Loop:
    def __init__(self, model, opt, stream, callbacks, steps):
        self.model, self.opt, self.stream = model, opt, stream
        self.callbacks, self.steps = callbacks, steps
        self.rank = dist.get_rank()

    def fit(self):
        for step in range(self.steps):
            x, y = next(self.stream)
            loss = F.cross_entropy(self.model(x).view(-1, VOCAB), y.reshape(-1))
            loss.backward()
            self.opt.step()
            self.opt.zero_grad()
            for cb in self.callbacks:
                cb.on_step_end(self, step, loss.item())
        for cb in self.callbacks:
            cb.on_train_end(self)


def stream(seed, batch=16):
    g = torch.Generator().manual_seed(seed)
    while True:
        start = torch.randint(0, VOCAB, (batch, 1), generator=g)
        stride = torch.randint(1, 4, (batch, 1), generator=g)
        seq = (start + stride * torch.arange(CTX + 1)) % VOCAB
        yield seq[:, :-1], seq[:, 1:]


def run():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(42)
    model = DDP(MiniGPT())
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    cbs = [LossPrinter(), SampleWriter(8, torch.tensor([[1, 2, 3, 4]]))]
    Loop(model, opt, stream(1000 + rank), cbs, steps=25).fit()
    dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(run())
