"""FSDP2 run that stops at the first checkpoint."""
# finding: ranks/other-collective
# severity: error
# ranks: 0, 1
# line: state = {name: value.full_tensor().cpu() for name, value in model.state_dict().items()}
# steps: 20

import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard


def build():
    model = nn.Sequential(
        nn.Linear(12, 64),
        nn.GELU(),
        nn.Linear(64, 64),
        nn.GELU(),
        nn.Linear(64, 3),
    )
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer)
    fully_shard(model)
    return model


def save_checkpoint(model, path):
    if dist.get_rank() == 0:
        state = {name: value.full_tensor().cpu() for name, value in model.state_dict().items()}
        torch.save(state, path)
    dist.barrier()


def batches(rank):
    rng = torch.Generator().manual_seed(700 + rank)
    while True:
        x = torch.randn(16, 12, generator=rng)
        yield x, x[:, :3].argmax(1)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(21)
    model = build()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    folder = Path(tempfile.mkdtemp())
    for step, (x, wanted) in enumerate(batches(dist.get_rank())):
        loss = nn.functional.cross_entropy(model(x), wanted)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 4 == 3:
            save_checkpoint(model, folder / f"step{step}.pt")
        if step == 20:
            break
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
