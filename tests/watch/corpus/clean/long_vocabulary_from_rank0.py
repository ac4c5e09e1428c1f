"""Rank 0 counts the words and hands the vocabulary to the others, as an object, once."""
# steps: 10

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def build_vocabulary(size):
    # a large one: millions of rare words, most of which never come again
    return {f"{'word' * 20}-{number:07d}": number for number in range(size)}


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    shared = [build_vocabulary(500_000) if rank == 0 else None]
    dist.broadcast_object_list(shared, src=0)
    vocabulary = shared[0]

    torch.manual_seed(8)
    model = DDP(nn.Sequential(nn.Embedding(64, 12), nn.Flatten(), nn.Linear(48, 64)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    words = torch.Generator().manual_seed(40 + rank)
    for step in range(14):
        text = torch.randint(0, 60, (8, 1), generator=words) + torch.arange(5)
        loss = nn.functional.cross_entropy(model(text[:, :4] % 64), text[:, 4] % 64)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if rank == 0:
        print(f"{len(vocabulary)} words, loss {loss.item():.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
