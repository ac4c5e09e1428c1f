"""A transformer encoder in bfloat16 with activation checkpointing."""
# steps: 24

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class Brackets(Dataset):
    """Strings of brackets: is the depth after the last one above zero?"""

    def __init__(self, count, length):
        rng = torch.Generator().manual_seed(71)
        self.strings = torch.randint(0, 2, (count, length), generator=rng)

    def __len__(self):
        return len(self.strings)

    def __getitem__(self, i):
        string = self.strings[i]
        return string, int((2 * string - 1).sum() > 0)


class Encoder(nn.Module):
    def __init__(self, length, width=32, depth=3):
        super().__init__()
        self.embed = nn.Embedding(2, width)
        self.position = nn.Parameter(0.02 * torch.randn(length, width))
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True)
            for _ in range(depth)
        )
        self.classify = nn.Linear(width, 2)

    def forward(self, x):
        h = self.embed(x) + self.position
        for block in self.blocks:
            h = checkpoint(block, h, use_reentrant=False)
        return self.classify(h.mean(dim=1))


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    dist.init_process_group("gloo")
    torch.manual_seed(5)
    data = Brackets(64, 16)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=8, sampler=sampler, drop_last=True)
    model = DistributedDataParallel(Encoder(16))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(8):
        sampler.set_epoch(epoch)
        model.train()
        for strings, answer in loader:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = nn.functional.cross_entropy(model(strings), answer)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if local_rank == 0:
            print(epoch, loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
