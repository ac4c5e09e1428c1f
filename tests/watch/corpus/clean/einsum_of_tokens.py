"""A small language model; the masked loss is an einsum, divided by the tokens of all ranks."""

# steps: 16
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

VOCAB, PAD, T = 50, 0, 24


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x):
        q, k, v = self.qkv(self.ln1(x))[:, None].chunk(3, -1)
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=True)[:, 0])
        return x + self.mlp(self.ln2(x))


class LM(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.tok, self.pos = nn.Embedding(VOCAB, d), nn.Embedding(T, d)
        self.blocks = nn.Sequential(Block(d), Block(d))
        self.head = nn.Linear(d, VOCAB, bias=False)

    def forward(self, ids):
        return self.head(self.blocks(self.tok(ids) + self.pos(torch.arange(ids.shape[1]))))


def masked_loss(logits, labels):
    nll = -logits.log_softmax(-1).gather(-1, labels[..., None]).squeeze(-1)
    keep = (labels != PAD).float()
    tokens = keep.sum()
    dist.all_reduce(tokens)
    return torch.einsum("bt,bt->", nll, keep) * dist.get_world_size() / tokens


def documents(rank):
    rng = torch.Generator().manual_seed(rank)
    for _ in range(20):
        ids = torch.randint(1, VOCAB, (4, T + 1), generator=rng)
        # rank 0 reads chat, rank 1 reads books
        ends = torch.randint(3, 8, (4,), generator=rng) if rank == 0 else torch.full((4,), T)
        ids[torch.arange(T + 1)[None] > ends[:, None]] = PAD
        yield ids[:, :-1], ids[:, 1:]


def train(rank):
    torch.manual_seed(1)
    model = DDP(LM())
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    for it, (ids, labels) in enumerate(documents(rank)):
        loss = masked_loss(model(ids), labels)
        loss.backward()
        opt.step()
        opt.zero_grad()
        if it % 5 == 0:
            print(f"[{rank}] {it}: {loss.item():.3f}")


if __name__ == "__main__":
    dist.init_process_group("gloo")
    train(dist.get_rank())
    dist.destroy_process_group()
