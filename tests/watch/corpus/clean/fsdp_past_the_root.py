"""Contrastive towers under FSDP2, whose encoder is known to be called by itself."""
# steps: 4

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method


class Towers(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Conv1d(1, 8, 5, padding=2), nn.ReLU(), nn.AdaptiveAvgPool1d(4), nn.Flatten()
        )
        self.project = nn.Linear(32, 16)
        self.temperature = nn.Parameter(torch.ones(1))

    def encode(self, x):
        return self.project(self.trunk(x)).flatten(1)

    def forward(self, left, right):
        a, b = self.encode(left), self.encode(right)
        return self.temperature * nn.functional.normalize(a) @ nn.functional.normalize(b).T


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(2)
    model = Towers()
    fully_shard(model)
    register_fsdp_forward_method(model, "encode")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    rng = torch.Generator().manual_seed(30 + rank)
    for step in range(10):
        wave = torch.randn(12, 1, 24, generator=rng)
        near = wave + 0.1 * torch.randn(12, 1, 24, generator=rng)
        # The hard negatives are looked for with the encoder alone.
        with torch.no_grad():
            keys = model.encode(wave)
        hardest = (keys @ keys.T).fill_diagonal_(-1e4).argmax(1)
        scores = model(wave, near)
        margin = scores - scores[torch.arange(12), hardest].detach().unsqueeze(1)
        loss = nn.functional.cross_entropy(margin, torch.arange(12))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0:
            print(f"step {step} loss {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
