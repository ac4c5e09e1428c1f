# fault: G09
# finding: gradients/loss-denominators-differ
# severity: warning
# ranks: 0, 1
# steps: 30

# anchor-free point detector: focal loss and box loss, both normalised by the number of positives
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


class PointHead(nn.Module):
    def __init__(self, c=24, classes=2):
        super().__init__()
        self.tower = nn.Sequential(nn.Conv2d(c, c, 3, 1, 1), nn.GroupNorm(4, c), nn.ReLU())
        self.cls = nn.Conv2d(c, classes, 1)
        self.reg = nn.Conv2d(c, 2, 1)
        nn.init.constant_(self.cls.bias, -2.0)
        self.classes = classes

    def forward(self, feat):
        t = self.tower(feat)
        return self.cls(t), self.reg(t)

    def loss(self, cls, reg, heat, off, pos):
        num_pos = pos.sum().clamp(min=1.0)
        p = cls.sigmoid()
        ce = F.binary_cross_entropy_with_logits(cls, heat, reduction="none")
        pt = p * heat + (1 - p) * (1 - heat)
        focal = (ce * (1 - pt) ** 2).sum() / num_pos
        l1 = ((reg - off).abs() * pos.unsqueeze(1)).sum() / num_pos
        return dict(loss_cls=focal, loss_reg=0.5 * l1)


class PointDetector(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 24, 3, 2, 1), nn.ReLU(), nn.Conv2d(24, 24, 3, 2, 1), nn.ReLU()
        )
        self.head = PointHead()

    def forward(self, img, targets=None):
        cls, reg = self.head(self.stem(img))
        if targets is None:
            return cls, reg
        return self.head.loss(cls, reg, *targets)


class Scenes(torch.utils.data.Dataset):
    """crowded scenes (up to 14 objects) and nearly empty ones"""

    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i * 17 + 1)
        k = (
            int(torch.randint(0, 3, (1,), generator=g))
            if i % 3
            else int(torch.randint(6, 14, (1,), generator=g))
        )
        img = torch.rand(3, 32, 32, generator=g) * 0.2
        heat, off, pos = torch.zeros(2, 8, 8), torch.zeros(2, 8, 8), torch.zeros(8, 8)
        for _ in range(k):
            x, y = torch.randint(0, 32, (2,), generator=g).tolist()
            c = int(torch.randint(0, 2, (1,), generator=g))
            img[c, y, x] += 2.0
            heat[c, y // 4, x // 4] = 1.0
            pos[y // 4, x // 4] = 1.0
            off[0, y // 4, x // 4], off[1, y // 4, x // 4] = (x % 4) / 4, (y % 4) / 4
        return img, heat, off, pos


def build(cfg):
    ds = Scenes(cfg["n"])
    sampler = torch.utils.data.distributed.DistributedSampler(ds)
    return sampler, torch.utils.data.DataLoader(
        ds, cfg["bs"], sampler=sampler, num_workers=0, drop_last=True
    )


def parse_losses(d):
    total = sum(v for v in d.values())
    logs = {k: v.item() for k, v in d.items()}
    return total, logs


def run(cfg):
    torch.manual_seed(cfg["seed"])
    net = nn.parallel.DistributedDataParallel(PointDetector())
    opt = torch.optim.SGD(net.parameters(), cfg["lr"], momentum=0.9, weight_decay=1e-4)
    sampler, loader = build(cfg)
    sched = torch.optim.lr_scheduler.MultiStepLR(opt, [20, 30], 0.3)
    it = 0
    for epoch in range(cfg["epochs"]):
        sampler.set_epoch(epoch)
        for img, heat, off, pos in loader:
            total, logs = parse_losses(net(img, (heat, off, pos)))
            opt.zero_grad()
            total.backward()
            opt.step()
            sched.step()
            if it % 10 == 0 and dist.get_rank() == 0:
                print("iter", it, logs)
            it += 1


if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    run(dict(n=240, bs=6, lr=0.01, epochs=2, seed=21))
    dist.destroy_process_group()
