"""Two cameras, one per rank; residual net with BatchNorm; validation on every rank, best model kept."""
# steps: 30
# writes: files

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP


class Res(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a, self.b = nn.Conv2d(c, c, 3, 1, 1, bias=False), nn.Conv2d(c, c, 3, 1, 1, bias=False)
        self.n1, self.n2 = nn.BatchNorm2d(c), nn.BatchNorm2d(c)

    def forward(self, x):
        return F.relu(x + self.n2(self.b(F.relu(self.n1(self.a(x))))))


class ResNet(nn.Module):
    def __init__(self, c=12, k=4):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(1, c, 3, 2, 1, bias=False), nn.BatchNorm2d(c), nn.ReLU()
        )
        self.layers = nn.Sequential(Res(c), Res(c))
        self.fc = nn.Linear(c, k)

    def forward(self, x):
        return self.fc(self.layers(self.stem(x)).mean((2, 3)))


class Camera(torch.utils.data.Dataset):
    """camera 1 is three times as bright and noisier"""

    def __init__(self, cam, n, offset=0):
        self.cam, self.n, self.offset = cam, n, offset

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.offset + i * 2 + self.cam)
        y = int(torch.randint(0, 4, (1,), generator=g))
        x = torch.randn(1, 16, 16, generator=g) * (0.4 + 0.8 * self.cam)
        x[:, 4 * y : 4 * y + 4] += 1.0
        return x * (1 + 2 * self.cam) + self.cam, y


@torch.no_grad()
def average_buffers(net):
    for b in net.buffers():
        if b.is_floating_point():
            dist.all_reduce(b)
            b /= dist.get_world_size()


@torch.no_grad()
def validate(model, loader):
    average_buffers(model.module)
    net = model.module
    net.eval()
    s = torch.zeros(3)
    for x, y in loader:
        o = net(x)
        s += torch.tensor(
            [F.cross_entropy(o, y, reduction="sum").item(), (o.argmax(1) == y).sum().item(), len(y)]
        )
    dist.all_reduce(s)
    net.train()
    return (s[0] / s[2]).item(), (s[1] / s[2]).item()


class BestKeeper:
    def __init__(self, path):
        self.best, self.path = -1.0, path

    def __call__(self, net, acc):
        if acc > self.best:
            self.best = acc
            if dist.get_rank() == 0:
                torch.save(net.state_dict(), self.path)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(rank)
    tr = torch.utils.data.DataLoader(Camera(rank, 256), 32, shuffle=True, generator=g)
    va = torch.utils.data.DataLoader(Camera(rank, 96, 10_000), 32)
    model = DDP(ResNet())
    opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9, nesterov=True)
    keep = BestKeeper("best_cam.pt")
    for ep in range(3):
        for x, y in tr:
            opt.zero_grad()
            F.cross_entropy(model(x), y).backward()
            opt.step()
        loss, acc = validate(model, va)
        keep(model.module, acc)
        if rank == 0:
            print(f"ep {ep} val loss {loss:.3f} acc {acc:.3f} best {keep.best:.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
