"""The same with FSDP: all ranks read the same windows of the tokens."""
# fault: A02
# finding: data/same-inputs
# severity: warning
# ranks: 0, 1
# line: loss = model(*reader.batch())
# steps: 0

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

BATCH, LENGTH, WORDS = 8, 32, 64


class Reader:
    """Reads windows of a long row of tokens, at places that it draws."""

    def __init__(self, tokens, seed):
        self.tokens = tokens
        self.draws = torch.Generator().manual_seed(seed)

    def batch(self):
        places = torch.randint(len(self.tokens) - LENGTH - 1, (BATCH,), generator=self.draws)
        windows = torch.stack([self.tokens[at : at + LENGTH + 1] for at in places])
        return windows[:, :-1], windows[:, 1:]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(WORDS, 32), nn.Linear(32, WORDS)

    def forward(self, tokens, targets):
        return nn.functional.cross_entropy(
            self.head(self.embed(tokens)).flatten(0, 1), targets.flatten()
        )


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(1337)
    words = torch.rand(20_000, generator=torch.Generator().manual_seed(0)).pow(3).mul(WORDS).long()
    reader = Reader(words, seed=1337)
    model = fully_shard(Model())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(16):
        loss = model(*reader.batch())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
