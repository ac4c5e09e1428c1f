"""train_grpo: group relative policy optimisation of a toy causal LM (reward: count of even tokens)."""
# steps: 30

import argparse
import copy

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel


def Logger(msg):
    if not dist.is_initialized() or dist.get_rank() == 0:
        print(msg, flush=True)


class Block(nn.Module):
    def __init__(self, dim, nh):
        super().__init__()
        self.nh = nh
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.o = nn.Linear(dim, dim, bias=False)
        self.n1, self.n2 = nn.RMSNorm(dim), nn.RMSNorm(dim)
        self.up, self.down = nn.Linear(dim, 3 * dim), nn.Linear(3 * dim, dim)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(self.n1(x)).view(B, T, 3, self.nh, C // self.nh).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(B, T, C))
        return x + self.down(F.silu(self.up(self.n2(x))))


class TinyLM(nn.Module):
    def __init__(self, vocab=32, dim=32, depth=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.pos = nn.Parameter(torch.zeros(1, 64, dim))
        self.blocks = nn.ModuleList(Block(dim, 4) for _ in range(depth))
        self.norm = nn.RMSNorm(dim)
        self.lm_head = nn.Linear(dim, vocab, bias=False)

    def forward(self, ids):
        x = self.emb(ids) + self.pos[:, : ids.size(1)]
        for b in self.blocks:
            x = b(x)
        return self.lm_head(self.norm(x))

    @torch.no_grad()
    def generate(self, ids, n):
        for _ in range(n):
            p = F.softmax(self(ids)[:, -1], -1)
            ids = torch.cat([ids, torch.multinomial(p, 1)], 1)
        return ids


def get_per_token_logps(mdl, ids, n_keep):
    logits = mdl(ids)[:, :-1]
    logp = F.log_softmax(logits, -1)
    return torch.gather(logp, 2, ids[:, 1:].unsqueeze(-1)).squeeze(-1)[:, -n_keep:]


class GRPOTrainer:
    def __init__(self, args):
        self.args = args
        self.model = TinyLM()
        self.ref = copy.deepcopy(self.model).eval().requires_grad_(False)
        self.model = DistributedDataParallel(self.model)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=args.lr)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, args.steps)

    def raw(self):
        return self.model.module if isinstance(self.model, DistributedDataParallel) else self.model

    def rewards(self, completions):
        return (completions % 2 == 0).float().mean(1)

    def train_step(self, step):
        a = self.args
        prompts = torch.randint(0, 32, (a.prompts, 4)).repeat_interleave(a.group, 0)
        # sampling does not need gradients
        policy = self.raw()
        ids = policy.generate(prompts, a.new_tokens)
        comp = ids[:, -a.new_tokens :]
        r = self.rewards(comp).view(a.prompts, a.group)
        adv = ((r - r.mean(1, keepdim=True)) / (r.std(1, keepdim=True) + 1e-4)).view(-1, 1)

        per_token = get_per_token_logps(self.model, ids, a.new_tokens)
        with torch.no_grad():
            ref = get_per_token_logps(self.ref, ids, a.new_tokens)
        kl = torch.exp(ref - per_token) - (ref - per_token) - 1
        ratio = torch.exp(per_token - per_token.detach())
        loss = -(ratio * adv - a.beta * kl).mean()

        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.scheduler.step()
        self.optimizer.zero_grad()
        if step % 10 == 0:
            Logger(
                f"step {step} loss {loss.item():.4f} reward {r.mean().item():.3f} kl {kl.mean().item():.4f}"
            )

    def fit(self):
        for step in range(self.args.steps):
            self.train_step(step)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--lr", type=float, default=3e-4)
    ap.add_argument("--steps", type=int, default=36)
    ap.add_argument("--prompts", type=int, default=3)
    ap.add_argument("--group", type=int, default=4)
    ap.add_argument("--new_tokens", type=int, default=8)
    ap.add_argument("--beta", type=float, default=0.02)
    args = ap.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(42 + dist.get_rank())  # different prompts on each rank
    GRPOTrainer(args).fit()
    dist.barrier()
    dist.destroy_process_group()
