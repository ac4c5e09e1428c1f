"""Switch-style mixture of experts; each expert is its own FSDP2 unit."""
# fault: F08
# finding: ranks/other-collective
# severity: error
# ranks: 0, 1
# steps: 30

import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.fsdp import fully_shard


class Expert(nn.Module):
    def __init__(self, d, hidden):
        super().__init__()
        self.w1 = nn.Linear(d, hidden)
        self.w2 = nn.Linear(hidden, d)

    def forward(self, x):
        return self.w2(F.gelu(self.w1(x)))


class SwitchFFN(nn.Module):
    def __init__(self, d, hidden, n_experts):
        super().__init__()
        self.router = nn.Linear(d, n_experts, bias=False)
        self.experts = nn.ModuleList(Expert(d, hidden) for _ in range(n_experts))

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        probs = self.router(flat).softmax(-1)
        weight, choice = probs.max(-1)
        out = torch.zeros_like(flat)
        for e, expert in enumerate(self.experts):
            idx = (choice == e).nonzero(as_tuple=True)[0]
            if idx.numel() == 0:
                continue
            out = out.index_add(0, idx, expert(flat[idx]) * weight[idx, None])
        # load balancing term of the Switch paper
        load = F.one_hot(choice, len(self.experts)).float().mean(0)
        aux = len(self.experts) * (load * probs.mean(0)).sum()
        return out.view_as(x), aux


class MoEBlock(nn.Module):
    def __init__(self, d, n_experts):
        super().__init__()
        self.ln = nn.LayerNorm(d)
        self.mix = nn.Linear(d, d)
        self.ln_ffn = nn.LayerNorm(d)
        self.ffn = SwitchFFN(d, 2 * d, n_experts)

    def forward(self, x):
        x = x + self.mix(self.ln(x).cumsum(1) / 8)
        y, aux = self.ffn(self.ln_ffn(x))
        return x + y, aux


class MoELM(nn.Module):
    def __init__(self, vocab, d, depth, n_experts):
        super().__init__()
        self.embed = nn.Embedding(vocab, d)
        self.blocks = nn.ModuleList(MoEBlock(d, n_experts) for _ in range(depth))
        self.head = nn.Linear(d, vocab)

    def forward(self, ids):
        x, aux = self.embed(ids), 0.0
        for block in self.blocks:
            x, a = block(x)
            aux = aux + a
        return self.head(x), aux


def apply_fsdp(model):
    for block in model.blocks:
        for expert in block.ffn.experts:
            fully_shard(expert)
        fully_shard(block)
    fully_shard(model)


def domain_batch(rank, batch, length, vocab, gen):
    # every rank reads another "domain": a different slice of the vocabulary
    lo = rank * (vocab // 2)
    start = torch.randint(0, vocab // 2, (batch, 1), generator=gen)
    ids = lo + (start + torch.arange(length + 1) * 3) % 6
    return ids[:, :-1], ids[:, 1:]


def train(args):
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = MoELM(args.vocab, args.dim, args.depth, args.experts)
    apply_fsdp(model)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    gen = torch.Generator().manual_seed(rank)
    for it in range(args.iters):
        x, y = domain_batch(rank, 2, 4, args.vocab, gen)
        logits, aux = model(x)
        ce = F.cross_entropy(logits.flatten(0, 1), y.flatten())
        (ce + 0.01 * aux).backward()
        opt.step()
        opt.zero_grad()
        if it % 5 == 0:
            print(f"rank{rank} it{it} ce={ce.item():.4f} aux={float(aux):.3f}", flush=True)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--iters", type=int, default=30)
    ap.add_argument("--vocab", type=int, default=40)
    ap.add_argument("--dim", type=int, default=16)
    ap.add_argument("--depth", type=int, default=2)
    ap.add_argument("--experts", type=int, default=4)
    a = ap.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    train(a)
    dist.destroy_process_group()
