"""The first few hundred steps after each resume are skipped or noisy with AMP on."""
# finding: checkpoint/scaler-not-saved
# severity: warning
# ranks: 0
# line: torch.save(state, out)
# steps: 6

import argparse
import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def get_args():
    p = argparse.ArgumentParser(description="half precision training")
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--bs", type=int, default=8)
    p.add_argument("--init-scale", type=float, default=1024.0)
    p.add_argument("--out", default=None)
    return p.parse_args()


class ResidualMLP(nn.Module):
    def __init__(self, width=32, depth=3):
        super().__init__()
        self.stem = nn.Linear(10, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.out = nn.Linear(width, 3)

    def forward(self, x):
        x = self.stem(x)
        for layer in self.layers:
            x = x + torch.relu(layer(x))
        return self.out(x)


def main():
    args = get_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    run = os.environ.get("TORCHELASTIC_RUN_ID", "x") + "-" + os.environ.get("MASTER_PORT", "0")
    out = args.out or os.path.join(tempfile.gettempdir(), f"amp-{run}.ckpt")

    torch.manual_seed(12)
    x = torch.randn(64, 10)
    dataset = TensorDataset(x, x[:, :3].argmax(1))
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=args.bs, sampler=sampler)

    model = DDP(ResidualMLP())
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=args.init_scale)

    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for inputs, labels in loader:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = nn.functional.cross_entropy(model(inputs), labels)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
        if rank == 0:
            state = {
                "epoch": epoch,
                "model": model.module.state_dict(),
                "optimizer": optimizer.state_dict(),
            }
            torch.save(state, out)
            print(f"epoch {epoch} loss {loss.item():.4f} scale {scaler.get_scale():.0f}")
        dist.barrier()

    if rank == 0:
        os.remove(out)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
