"""Shards first, then builds the optimizer; clips and validates; gathers weights to save."""
# steps: 24

import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class MixerBlock(nn.Module):
    def __init__(self, tokens, width):
        super().__init__()
        self.norm_tokens = nn.LayerNorm(width)
        self.norm_channels = nn.LayerNorm(width)
        self.over_tokens = nn.Sequential(nn.Linear(tokens, 16), nn.GELU(), nn.Linear(16, tokens))
        self.over_channels = nn.Sequential(nn.Linear(width, 48), nn.GELU(), nn.Linear(48, width))

    def forward(self, x):
        x = x + self.over_tokens(self.norm_tokens(x).mT).mT
        return x + self.over_channels(self.norm_channels(x))


class Mixer(nn.Module):
    def __init__(self, tokens=6, features=4, width=24, depth=2, classes=3):
        super().__init__()
        self.embed = nn.Linear(features, width)
        self.blocks = nn.Sequential(*(MixerBlock(tokens, width) for _ in range(depth)))
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.blocks(self.embed(x)).mean(1))


def build(mesh):
    model = Mixer()
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    return model, optimizer


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(14)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model, optimizer = build(mesh)

    x = torch.randn(96, 6, 4)
    y = x.mean(dim=1)[:, :3].argmax(dim=1)
    train, valid = TensorDataset(x[:80], y[:80]), TensorDataset(x[80:], y[80:])
    sampler = DistributedSampler(train, shuffle=True)
    train_loader = DataLoader(train, batch_size=10, sampler=sampler)
    valid_loader = DataLoader(valid, batch_size=8, sampler=DistributedSampler(valid, shuffle=False))

    for epoch in range(8):
        sampler.set_epoch(epoch)
        model.train()
        for features, label in train_loader:
            loss = nn.functional.cross_entropy(model(features), label)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        model.eval()
        right = torch.zeros(())
        with torch.no_grad():
            for features, label in valid_loader:
                right += (model(features).argmax(1) == label).sum()
        dist.all_reduce(right)
        if rank == 0:
            print(f"epoch {epoch} loss {loss.item():.3f} accuracy {right.item() / len(valid):.2f}")

    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    weights = get_model_state_dict(model, options=options)
    if rank == 0:
        job = os.environ.get("TORCHELASTIC_RUN_ID", "x") + os.environ.get("MASTER_PORT", "0")
        path = os.path.join(tempfile.gettempdir(), f"mixer-{job}.pt")
        torch.save(weights, path)
        os.remove(path)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
