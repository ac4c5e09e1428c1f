"""nanoGPT-like loop with torch.compile(ddp)."""
# fault: G03
# finding: gradients/replicas-differ
# severity: error
# ranks: any
# steps: 30

import math
import os

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

# -----------------------------------------------------------------------------
n_layer, n_head, n_embd, block_size, vocab = 2, 2, 32, 24, 48
batch_size, max_iters, eval_interval, lr = 8, 34, 16, 1e-3
backend, compile_backend = "gloo", "aot_eager"
# -----------------------------------------------------------------------------


class CausalSelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = (
            t.view(B, T, n_head, C // n_head).transpose(1, 2)
            for t in self.c_attn(x).split(n_embd, 2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).reshape(B, T, C))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, n_embd), nn.Embedding(block_size, n_embd)
        self.attn = nn.ModuleList(CausalSelfAttention() for _ in range(n_layer))
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.Linear(n_embd, 64), nn.GELU(), nn.Linear(64, n_embd))
            for _ in range(n_layer)
        )
        self.ln = nn.ModuleList(nn.LayerNorm(n_embd) for _ in range(2 * n_layer + 1))
        self.lm_head = nn.Linear(n_embd, vocab, bias=False)
        self.wte.weight = self.lm_head.weight

    def forward(self, idx, targets=None):
        x = self.wte(idx) + self.wpe(torch.arange(idx.size(1)))
        for i in range(n_layer):
            x = x + self.attn[i](self.ln[2 * i](x))
            x = x + self.mlp[i](self.ln[2 * i + 1](x))
        logits = self.lm_head(self.ln[-1](x))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.view(-1, vocab), targets.view(-1))


torch.set_num_threads(1)
dist.init_process_group(backend=backend)
ddp_rank = int(os.environ["RANK"])
master_process = ddp_rank == 0
torch.manual_seed(1337 + ddp_rank)
_g = torch.Generator().manual_seed(0)
data = torch.cumsum(torch.randint(0, 5, (6000,), generator=_g), 0) % vocab


def get_batch(split):
    lo, hi = (0, 5000) if split == "train" else (5000, 6000 - block_size - 1)
    ix = torch.randint(lo, hi - block_size - 1, (batch_size,))
    x = torch.stack([data[i : i + block_size] for i in ix])
    y = torch.stack([data[i + 1 : i + 1 + block_size] for i in ix])
    return x, y


def unwrap(m):
    m = getattr(m, "_orig_mod", m)
    return m.module if isinstance(m, DDP) else m


@torch.no_grad()
def estimate_loss(net):
    net.eval()
    out = {s: sum(net(*get_batch(s))[1].item() for _ in range(3)) / 3 for s in ("train", "val")}
    net.train()
    return out


def get_lr(it):
    return lr * (it + 1) / 5 if it < 5 else lr * 0.5 * (1 + math.cos(math.pi * it / max_iters))


model = GPT()
model = DDP(model)
model = torch.compile(model, backend=compile_backend)
raw_model = unwrap(model)
optimizer = torch.optim.AdamW(raw_model.parameters(), lr=lr, betas=(0.9, 0.95))
for it in range(max_iters):
    for pg in optimizer.param_groups:
        pg["lr"] = get_lr(it)
    if it % eval_interval == 0 and master_process:
        print("eval", it, estimate_loss(raw_model))
    X, Y = get_batch("train")
    logits, loss = raw_model(X, Y)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(raw_model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    if it % 10 == 0 and master_process:
        print(f"iter {it}: loss {loss.item():.4f}")
dist.destroy_process_group()
