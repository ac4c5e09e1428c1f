# steps: 30

import argparse
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.utils.data as data

parser = argparse.ArgumentParser(description="PyTorch tiny ResNet training")
parser.add_argument("--epochs", default=2, type=int)
parser.add_argument("-b", "--batch-size", default=32, type=int)
parser.add_argument("--lr", default=0.02, type=float)
parser.add_argument("--print-freq", default=5, type=int)
parser.add_argument("--seed", default=7, type=int)


class BasicBlock(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.down = None
        if stride != 1 or cin != cout:
            self.down = nn.Sequential(
                nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout)
            )

    def forward(self, x):
        idt = x if self.down is None else self.down(x)
        out = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(out)) + idt)


class TinyResNet(nn.Module):
    def __init__(self, classes=5):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 1, 1)
        self.layer1 = BasicBlock(8, 8)
        self.layer2 = BasicBlock(8, 16, 2)
        self.fc = nn.Linear(16, classes)

    def forward(self, x):
        x = self.layer2(self.layer1(self.stem(x)))
        return self.fc(x.mean((2, 3)))


class Blobs(data.Dataset):
    """class = dominant colour/position of a blob"""

    def __init__(self, n, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.y = torch.arange(n) % 5
        self.x = torch.randn(n, 3, 12, 12, generator=self.g) * 0.5
        for i in range(n):
            k = int(self.y[i])
            self.x[i, k % 3, 2 * k : 2 * k + 3] += 1.5

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


def train(loader, model, criterion, optimizer, epoch, args):
    model.train()
    end = time.time()
    for i, (images, target) in enumerate(loader):
        output = model(images)
        loss = criterion(output, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if i % args.print_freq == 0 and dist.get_rank() == 0:
            print(
                "Epoch: [{}][{}/{}]\tLoss {:.4f}\tTime {:.3f}".format(
                    epoch, i, len(loader), loss.item(), time.time() - end
                )
            )
        end = time.time()


def validate(loader, model, criterion):
    model.eval()
    correct = n = 0
    loss = 0.0
    with torch.no_grad():
        for images, target in loader:
            output = model(images)
            loss += criterion(output, target).item() * len(target)
            correct += (output.argmax(1) == target).sum().item()
            n += len(target)
    print(" * Acc@1 {:.3f}  Loss {:.4f}".format(100.0 * correct / n, loss / n))
    return correct / n


def main():
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="env://")
    torch.manual_seed(args.seed)
    model = nn.parallel.DistributedDataParallel(TinyResNet())
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=0.9, weight_decay=1e-4)
    train_ds, val_ds = Blobs(640, 0), Blobs(100, 1)
    sampler = data.distributed.DistributedSampler(train_ds)
    train_loader = data.DataLoader(
        train_ds, args.batch_size, sampler=sampler, num_workers=0, drop_last=True
    )
    val_loader = data.DataLoader(val_ds, 50)
    best = 0
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        train(train_loader, model, criterion, optimizer, epoch, args)
        # evaluate once, on the master, on the whole validation set
        if dist.get_rank() == 0:
            acc = validate(val_loader, model.module, criterion)
            best = max(acc, best)
        dist.barrier()
    if dist.get_rank() == 0:
        print("best", best)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
