"""FSDP, and an evaluation on all ranks, told by one."""
# steps: 0

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.fsdp import fully_shard


def sharded():
    model = nn.Sequential(
        nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 4)
    )
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer)
    return fully_shard(model)


@torch.no_grad()
def accuracy(model, batches):
    model.eval()
    right = 0
    for x in batches:
        right += (model(x).argmax(1) == x[:, :4].argmax(1)).sum().item()
    model.train()
    return right / batches.shape[:2].numel()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = sharded()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = torch.Generator().manual_seed(10 + rank)
    held_out = torch.randn(3, 16, 8)
    for step in range(20):
        x = torch.randn(16, 8, generator=data)
        loss = F.cross_entropy(model(x), x[:, :4].argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 4:
            found = accuracy(model, held_out)
            if rank == 0:
                print(f"step {step} accuracy {found:.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
