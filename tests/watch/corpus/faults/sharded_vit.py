"""A tiny vision transformer for defect images, sharded with fully_shard."""
# fault: A02
# finding: data/same-batches
# severity: error
# ranks: 0, 1
# line: for images, labels in loader:
# steps: 24

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, Dataset


class Defects(Dataset):
    """grey 12x12 patches, class 1 has a bright scratch"""

    def __init__(self, count, seed=3):
        g = torch.Generator().manual_seed(seed)
        self.images = 0.3 * torch.randn(count, 1, 12, 12, generator=g)
        self.labels = torch.randint(0, 2, (count,), generator=g)
        for i in range(count):
            if self.labels[i]:
                row = int(torch.randint(0, 12, (1,), generator=g))
                self.images[i, 0, row, 3:9] += 1.5

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.images[i], self.labels[i]


class PatchTransformer(nn.Module):
    def __init__(self, width=24, depth=2):
        super().__init__()
        self.patchify = nn.Conv2d(1, width, kernel_size=4, stride=4)
        self.position = nn.Parameter(torch.zeros(1, 9, width))
        make = lambda: nn.TransformerEncoderLayer(width, 4, 48, dropout=0.0, batch_first=True)
        self.layers = nn.ModuleList(make() for _ in range(depth))
        self.head = nn.Linear(width, 2)

    def forward(self, image):
        tokens = self.patchify(image).flatten(2).transpose(1, 2) + self.position
        for layer in self.layers:
            tokens = layer(tokens)
        return self.head(tokens.mean(dim=1))


def shard(model):
    for layer in model.layers:
        fully_shard(layer)
    return fully_shard(model)


def train_loader(dataset, batch_size):
    order = torch.Generator().manual_seed(11)
    return DataLoader(dataset, batch_size=batch_size, shuffle=True, generator=order)


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--epochs", type=int, default=4)
    args.add_argument("--batch", type=int, default=8)
    args = args.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(0)

    model = shard(PatchTransformer())
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
    loader = train_loader(Defects(96), args.batch)
    for epoch in range(args.epochs):
        total = torch.zeros(())
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            total += loss.detach()
        dist.all_reduce(total)
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: {total.item() / len(loader) / dist.get_world_size():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
