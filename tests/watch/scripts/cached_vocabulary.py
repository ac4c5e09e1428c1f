"""Rank 0 makes a vocabulary on the disk, and all ranks read it; with "each", one of each host does."""

import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def vocabulary(file: Path, writer: int) -> dict[str, int]:
    """Return the vocabulary, which one rank makes before the others read it."""
    if writer == 0:
        file.write_text(json.dumps({letter: i for i, letter in enumerate("abcdefgh")}))
    dist.barrier()
    with file.open() as opened:
        return dict[str, int](json.load(opened))


def main() -> None:
    """Train a little on letters."""
    dist.init_process_group("gloo")
    folder, *each = sys.argv[1:]
    writer = int(os.environ["LOCAL_RANK"]) if each else dist.get_rank()
    letters = vocabulary(Path(folder) / "vocabulary.json", writer)
    model = DistributedDataParallel(nn.Embedding(len(letters), 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        loss = model(torch.randint(len(letters), (6,))).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
