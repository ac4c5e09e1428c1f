"""Batches of as many tokens on each rank, cut into as many pieces as fit: more on one rank."""
# steps: 0

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def pieces_of(batch, rank):
    return batch.chunk(2 + 2 * rank)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    data = torch.Generator().manual_seed(rank)
    for _ in range(12):
        batch = torch.randn(32, 8, generator=data)
        pieces = pieces_of(batch, rank)
        optimizer.zero_grad()
        for number, piece in enumerate(pieces, 1):
            model.require_backward_grad_sync = number == len(pieces)
            loss = nn.functional.mse_loss(model(piece), piece.sum(1, keepdim=True), reduction="sum")
            (loss / len(batch)).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
