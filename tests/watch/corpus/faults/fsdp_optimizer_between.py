"""Our base trainer shards the blocks, makes the optimizer, and leaves the root to subclasses."""
# finding: sharding/optimizer-without-gradients
# severity: error
# ranks: 0, 1
# line: fully_shard(self.model)
# says: tok.weight, head.weight, head.bias
# steps: 8

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class LM(nn.Module):
    def __init__(self, vocab=50, width=32, depth=3):
        super().__init__()
        self.tok = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(Block(width) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab)
        self.aux = nn.Linear(width, 2)
        self.norm.requires_grad_(False)

    def forward(self, x):
        x = self.tok(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class BaseTrainer:
    def __init__(self, model):
        self.model = model
        self.wrap_blocks()
        self.optimizer = self.configure_optimizer()
        self.wrap_root()

    def configure_optimizer(self):
        named = dict(self.model.named_parameters())
        decay = [each for each in named.values() if each.ndim > 1]
        rest = [each for each in named.values() if each.ndim <= 1]
        groups = [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, lr=1e-3)


class FSDPTrainer(BaseTrainer):
    def wrap_blocks(self):
        for layer in self.model.layers:
            fully_shard(layer)

    def wrap_root(self):
        fully_shard(self.model)

    def fit(self, steps):
        data = torch.Generator().manual_seed(dist.get_rank())
        for _ in range(steps):
            x = torch.randint(0, 50, (4, 17), generator=data)
            logits = self.model(x[:, :-1])
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), x[:, 1:].flatten())
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    FSDPTrainer(LM()).fit(12)
    dist.destroy_process_group()
