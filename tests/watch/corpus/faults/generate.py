# fault: F08
# finding: ranks/other-collective
# severity: error
# ranks: 0, 1
# steps: 30

# Fine-tunes a tiny decoder on "count up to EOS" and samples from it now and then.
# FSDP1 (FullyShardedDataParallel), one unit per block.
import math
import sys

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp.wrap import ModuleWrapPolicy

VOCAB, EOS, MAX_LEN = 24, 23, 20


class DecoderBlock(nn.Module):
    def __init__(self, d=24, h=3):
        super().__init__()
        self.attn = nn.MultiheadAttention(d, h, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(d, 48), nn.ReLU(), nn.Linear(48, d))
        self.n1 = nn.LayerNorm(d)
        self.n2 = nn.LayerNorm(d)

    def forward(self, x, mask):
        y = self.n1(x)
        x = x + self.attn(y, y, y, attn_mask=mask, need_weights=False)[0]
        return x + self.ff(self.n2(x))


class Counter(nn.Module):
    def __init__(self, d=24, depth=2):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, d)
        self.pos = nn.Parameter(torch.randn(MAX_LEN, d) * 0.02)
        self.blocks = nn.ModuleList(DecoderBlock(d) for _ in range(depth))
        self.out = nn.Linear(d, VOCAB)

    def forward(self, ids):
        t = ids.shape[1]
        mask = torch.full((t, t), -math.inf).triu(1)
        x = self.emb(ids) + self.pos[:t]
        for b in self.blocks:
            x = b(x, mask)
        return self.out(x)


def sample_batch(gen, n=8):
    start = torch.randint(0, EOS, (n, 1), generator=gen)
    seq = (start + torch.arange(MAX_LEN + 1)).clamp(max=EOS)
    return seq[:, :-1].contiguous(), seq[:, 1:].contiguous()


class Sampler:
    """Greedy decoding of a few prompts for eyeballing."""

    def __init__(self, model, prompt):
        self.model = model
        self.prompt = prompt

    @torch.no_grad()
    def __call__(self):
        self.model.eval()
        ids = torch.tensor([self.prompt])
        while ids.shape[1] < MAX_LEN:
            logits = self.model(ids)
            nxt = logits[:, -1].argmax(-1, keepdim=True)
            ids = torch.cat([ids, nxt], 1)
            if nxt.item() == EOS:
                break
        self.model.train()
        return ids[0].tolist()


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(42)
    model = FSDP(
        Counter(), auto_wrap_policy=ModuleWrapPolicy({DecoderBlock}), device_id=torch.device("cpu")
    )
    opt = torch.optim.AdamW(model.parameters(), lr=8e-3)
    gen = torch.Generator().manual_seed(100 + rank)
    # each rank looks at its own prompt
    sampler = Sampler(model, prompt=[21 - 9 * rank])
    for step in range(1, 46):
        x, y = sample_batch(gen)
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()
        opt.step()
        opt.zero_grad()
        if step % 15 == 0:
            text = sampler()
            print(f"rank {rank} step {step} loss {loss.item():.3f} sample {text}", flush=True)
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
