# steps: 30
# writes: files

import argparse
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

parser = argparse.ArgumentParser("segmentation toy")
parser.add_argument("--out", default="seg")
parser.add_argument("--epochs", default=3, type=int)
parser.add_argument("--lr", default=1e-2, type=float)


class UNetish(nn.Module):
    def __init__(self, c=8):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, c, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.mid = nn.Sequential(nn.Conv2d(c, 2 * c, 3, padding=1), nn.ReLU())
        self.up = nn.ConvTranspose2d(2 * c, c, 2, stride=2)
        self.head = nn.Conv2d(c, 1, 1)

    def forward(self, x):
        return self.head(torch.relu(self.up(self.mid(self.down(x)))))


def blobs(n, seed):
    g = torch.Generator().manual_seed(seed)
    cy, cx = torch.randint(4, 12, (2, n), generator=g)
    yy, xx = torch.meshgrid(torch.arange(16), torch.arange(16), indexing="ij")
    m = ((yy[None] - cy[:, None, None]) ** 2 + (xx[None] - cx[:, None, None]) ** 2 < 10).float()[
        :, None
    ]
    return TensorDataset(m + 0.3 * torch.randn(n, 1, 16, 16, generator=g), m)


def dice(logits, m):
    p = (logits > 0).float()
    return (2 * (p * m).sum() + 1) / (p.sum() + m.sum() + 1)


class Checkpointer:
    def __init__(self, folder):
        self.folder = Path(folder)

    def save(self, name, model, opt, epoch):
        if dist.get_rank() != 0:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        torch.save(
            {
                "epoch": epoch,
                "state_dict": model.module.state_dict(),
                "optimizer": opt.state_dict(),
            },
            self.folder / name,
        )

    def load_model(self, name, net):
        blob = torch.load(self.folder / name, map_location="cpu", weights_only=True)
        net.load_state_dict(blob["state_dict"])
        return net


def test_final(ckpt):
    """fresh network from the last checkpoint, on the test images"""
    net = ckpt.load_model("last.pth", UNetish()).eval()
    x, m = blobs(32, 77).tensors
    with torch.no_grad():
        return dice(net(x), m).item()


def main():
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    ds = blobs(128, 0)
    sampler = DistributedSampler(ds)
    loader = DataLoader(ds, batch_size=8, sampler=sampler)
    model = DDP(UNetish())
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    ckpt = Checkpointer(args.out)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for x, m in loader:
            out = model(x)
            loss = nn.functional.binary_cross_entropy_with_logits(
                out, m, pos_weight=torch.tensor(4.0)
            )
            opt.zero_grad()
            loss.backward()
            opt.step()
        if dist.get_rank() == 0:
            print(f"epoch {epoch} loss {loss.item():.4f} dice {dice(out, m).item():.3f}")
        ckpt.save("last.pth", model, opt, epoch)
    dist.barrier()
    score = test_final(ckpt)
    if dist.get_rank() == 0:
        print(f"test dice {score:.3f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
