# fault: C05
# finding: ranks/other-collective
# severity: error
# ranks: 0, 1
# line: dist.all_reduce(hist)
# steps: 30

# Segmentation toy (U-Net-like), class frequencies reweighted over all ranks from time to time.
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset

NUM_CLASSES = 6


class Scenes(IterableDataset):
    """endless random scenes; every worker/rank draws from its own stream.
    High classes are rare (a 5 is not in every batch)."""

    def __init__(self, seed):
        self.seed = seed

    def __iter__(self):
        g = torch.Generator().manual_seed(self.seed)
        while True:
            mask = torch.zeros(16, 16, dtype=torch.long)
            for k in range(1, NUM_CLASSES):
                if torch.rand(1, generator=g).item() < 1.0 / (k * k):
                    i, j = torch.randint(0, 11, (2,), generator=g).tolist()
                    mask[i : i + 5, j : j + 5] = k
            img = mask[None].float() * 0.4 + 0.3 * torch.randn(1, 16, 16, generator=g)
            yield img, mask


def block(i, o):
    return nn.Sequential(
        nn.Conv2d(i, o, 3, padding=1),
        nn.LeakyReLU(0.1),
        nn.Conv2d(o, o, 3, padding=1),
        nn.LeakyReLU(0.1),
    )


class UNetish(nn.Module):
    def __init__(self, w=8):
        super(UNetish, self).__init__()
        self.d1, self.d2 = block(1, w), block(w, 2 * w)
        self.up = nn.ConvTranspose2d(2 * w, w, 2, stride=2)
        self.u1 = block(2 * w, w)
        self.last = nn.Conv2d(w, NUM_CLASSES, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.up(self.d2(F.max_pool2d(a, 2)))
        return self.last(self.u1(torch.cat([a, b], 1)))


class ClassBalancer:
    """running class histogram -> loss weights (the same on all ranks)"""

    def __init__(self, every=4):
        self.every = every
        self.count = torch.ones(NUM_CLASSES)
        self.weights = torch.ones(NUM_CLASSES)
        self.i = 0

    def __call__(self, masks):
        if self.i % self.every == 0:
            self.refresh(masks)
        self.i += 1
        return self.weights

    def refresh(self, masks):
        hist = torch.bincount(masks.flatten()).float()
        dist.all_reduce(hist)
        self.count[: len(hist)] += hist
        w = self.count.sum() / self.count
        self.weights = (w / w.sum() * NUM_CLASSES).clamp(0.1, 3.0)


def train(rank, steps=24):
    loader = iter(DataLoader(Scenes(seed=77 + rank), batch_size=4))
    torch.manual_seed(1)
    net = DistributedDataParallel(UNetish())
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
    balance = ClassBalancer()
    for step in range(steps):
        img, mask = next(loader)
        w = balance(mask)
        logits = net(img)
        # per pixel CE, mean over pixels (same count on all ranks)
        loss = (F.cross_entropy(logits, mask, reduction="none") * w[mask]).mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if rank == 0 and step % 6 == 0:
            print(
                "step",
                step,
                "loss",
                round(loss.item(), 4),
                "w",
                [round(v, 2) for v in balance.weights.tolist()],
            )


if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group(backend="gloo")
    try:
        train(dist.get_rank())
    finally:
        dist.destroy_process_group()
