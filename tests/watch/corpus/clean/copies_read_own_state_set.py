"""Goes on from a distributed checkpoint, which is read aside, lest it be half read."""
# steps: 8
# writes: files

import shutil

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn.functional as F
from torch import nn
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from torch.distributed.fsdp import fully_shard


def sharded():
    model = nn.Sequential(
        nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 4)
    )
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer)
    return fully_shard(model)


def pretrained(folder):
    weights = get_model_state_dict(sharded())
    halved = {name: each * 0.5 for name, each in weights.items()}
    dcp.save({"model": halved}, checkpoint_id=folder)


def resume(model, folder):
    weights = get_model_state_dict(model)
    state = {"model": {name: each.clone() for name, each in weights.items()}}
    dcp.load(state, checkpoint_id=folder)
    set_model_state_dict(model, state["model"])
    print(f"resumed from {folder}")


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    if rank == 0:
        shutil.rmtree("pretrained", ignore_errors=True)
    dist.barrier()
    torch.manual_seed(0)
    pretrained("pretrained")
    model = sharded()
    resume(model, "pretrained")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = torch.Generator().manual_seed(10 + rank)
    for step in range(12):
        x = torch.randn(16, 8, generator=data)
        loss = F.cross_entropy(model(x), x[:, :4].argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0 and rank == 0:
            print(f"step {step} loss {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
