"""Going from one process to two did not make training converge any faster, only slower per step."""
# finding: data/same-batches
# severity: error
# ranks: 0, 1
# line: for images, labels in train_loader:
# steps: 8

import argparse
import random

import torch
import torch.distributed as dist
from torch import nn, optim
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=42)
    return parser.parse_args()


def seed_everything(seed):
    random.seed(seed)
    torch.manual_seed(seed)


def fake_mnist(count=64):
    labels = torch.randint(0, 4, (count,))
    images = torch.randn(count, 1, 8, 8) * 0.3
    for image, label in zip(images, labels, strict=True):
        r, c = divmod(label.item(), 2)
        image[0, 4 * r : 4 * r + 4, 4 * c : 4 * c + 4] += 1
    return TensorDataset(images, labels)


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 3, padding=1)
        self.conv2 = nn.Conv2d(6, 12, 3, padding=1)
        self.fc = nn.Linear(12 * 2 * 2, 4)

    def forward(self, x):
        x = torch.max_pool2d(torch.relu(self.conv1(x)), 2)
        x = torch.max_pool2d(torch.relu(self.conv2(x)), 2)
        return self.fc(x.flatten(1))


def main():
    args = parse_args()
    dist.init_process_group("gloo")
    seed_everything(args.seed)

    train_data = fake_mnist()
    train_loader = DataLoader(train_data, batch_size=args.batch_size, shuffle=True)

    model = DDP(ConvNet())
    criterion = nn.CrossEntropyLoss()
    optimizer = optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)

    for epoch in range(args.epochs):
        for images, labels in train_loader:
            optimizer.zero_grad()
            loss = criterion(model(images), labels)
            loss.backward()
            optimizer.step()
        if dist.get_rank() == 0:
            print("epoch", epoch, "loss", round(loss.item(), 4))

    dist.destroy_process_group()


if __name__ == "__main__":
    main()
