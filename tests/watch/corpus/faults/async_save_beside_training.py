"""FSDP, and a checkpoint written in the background, by the one group that there is."""
# finding: ranks/other-collective
# severity: error
# ranks: 0, 1
# line: saving = dcp.async_save(state, checkpoint_id=f"checkpoints/{step}")
# says: a group of its own
# steps: 0
# writes: files

import shutil

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn.functional as F
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.fsdp import fully_shard


def sharded():
    model = nn.Sequential(
        nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 4)
    )
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer)
    return fully_shard(model)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    if rank == 0:
        shutil.rmtree("checkpoints", ignore_errors=True)
    dist.barrier()
    torch.manual_seed(0)
    model = sharded()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = torch.Generator().manual_seed(10 + rank)
    saving = None
    for step in range(20):
        x = torch.randn(16, 8, generator=data)
        loss = F.cross_entropy(model(x), x[:, :4].argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 4:
            weights, moments = get_state_dict(model, optimizer)
            state = {"model": weights, "optimizer": moments}
            if saving is not None:
                saving.result()
            saving = dcp.async_save(state, checkpoint_id=f"checkpoints/{step}")
    saving.result()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
