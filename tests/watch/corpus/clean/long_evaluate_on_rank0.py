"""Rank 0 evaluates through model.module and saves; the other rank waits at a barrier."""
# steps: 30

import logging
import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn, optim
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset, random_split

log = logging.getLogger("train")


class LeNet(nn.Module):
    def __init__(self, classes=3):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(4, 8, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
        )
        self.classifier = nn.Linear(32, classes)

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


def stripes(count=120, size=10):
    """Horizontal, vertical and diagonal stripes."""
    g = torch.Generator().manual_seed(8)
    i, j = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    kinds = torch.arange(count) % 3
    base = torch.stack([(i % 4 < 2).float(), (j % 4 < 2).float(), ((i + j) % 4 < 2).float()])
    images = base[kinds].unsqueeze(1) + 0.5 * torch.randn(count, 1, size, size, generator=g)
    return TensorDataset(images, kinds)


@torch.no_grad()
def accuracy(module, loader):
    module.eval()
    right = sum((module(x).argmax(1) == y).sum().item() for x, y in loader)
    module.train()
    return right / len(loader.dataset)


def main():
    dist.init_process_group("gloo")
    is_main = dist.get_rank() == 0
    logging.basicConfig(level=logging.INFO if is_main else logging.WARNING)
    torch.manual_seed(0)

    train_set, test_set = random_split(
        stripes(), [96, 24], generator=torch.Generator().manual_seed(1)
    )
    sampler = DistributedSampler(train_set, shuffle=True)
    train_loader = DataLoader(train_set, batch_size=8, sampler=sampler)
    test_loader = DataLoader(test_set, batch_size=24)

    model = DDP(LeNet())
    optimizer = optim.Adam(model.parameters(), lr=3e-3)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
    run_id = os.environ.get("TORCHELASTIC_RUN_ID", "x")
    folder = tempfile.gettempdir()
    last = os.path.join(folder, f"lenet-{run_id}-{os.environ.get('MASTER_PORT', 0)}.pt")

    for epoch in range(8):
        sampler.set_epoch(epoch)
        for image, kind in train_loader:
            optimizer.zero_grad()
            loss = criterion(model(image), kind)
            loss.backward()
            optimizer.step()
        if is_main:
            log.info("epoch %d accuracy %.2f", epoch, accuracy(model.module, test_loader))
            torch.save(
                {
                    "epoch": epoch,
                    "model": model.module.state_dict(),
                    "optimizer": optimizer.state_dict(),
                },
                last,
            )
        dist.barrier()

    if is_main:
        os.remove(last)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
