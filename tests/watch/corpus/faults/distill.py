"""Knowledge distillation. Teacher: frozen, not wrapped. Student: DDP. Evaluation on rank 0 through .module."""
# fault: G03
# finding: gradients/replicas-differ
# severity: error
# ranks: 0, 1
# steps: 30
# writes: files

import argparse
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler, Subset


class NoisyPolygons(Dataset):
    """angles of a polygon's corners -> number of corners"""

    def __init__(self, n=240, seed=0, max_corners=6):
        g = torch.Generator().manual_seed(seed)
        self.data = []
        for _ in range(n):
            c = int(torch.randint(3, max_corners + 1, (1,), generator=g))
            ang = torch.sort(torch.rand(c, generator=g) * 6.283).values
            pts = torch.zeros(8, 2)
            pts[:c] = torch.stack([ang.cos(), ang.sin()], 1) + 0.05 * torch.randn(c, 2, generator=g)
            self.data.append((pts[torch.randperm(8, generator=g)].flatten(), c - 3))

    def __getitem__(self, i):
        return self.data[i]

    def __len__(self):
        return len(self.data)


def mlp(width, depth, p=0.0):
    layers, d = [], 16
    for _ in range(depth):
        layers += [nn.Linear(d, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(p)]
        d = width
    return nn.Sequential(*layers, nn.Linear(d, 4))


class StudentWithHint(nn.Module):
    def __init__(self, width, teacher_width):
        super().__init__()
        self.stem = nn.Sequential(nn.Linear(16, width), nn.LayerNorm(width), nn.ReLU())
        self.hint = nn.Linear(width, teacher_width)
        self.body = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4))

    def forward(self, x, with_hint=False):
        h = self.stem(x)
        out = self.body(h)
        return (out, self.hint(h)) if with_hint else out


def fetch_teacher(path, rank, data, width):
    """rank 0 trains (or finds) the teacher, everyone loads it"""
    if rank == 0 and not os.path.exists(path):
        torch.manual_seed(50)
        t = mlp(width, 2)
        opt = torch.optim.Adam(t.parameters(), 5e-3)
        for epoch in range(4):
            for x, y in DataLoader(data, 48, shuffle=True, drop_last=True):
                loss = F.cross_entropy(t(x), y)
                opt.zero_grad()
                loss.backward()
                opt.step()
        torch.save(t.state_dict(), path)
    dist.barrier()
    teacher = mlp(width, 2)
    teacher.load_state_dict(torch.load(path, map_location="cpu"))
    teacher.eval()
    for p in teacher.parameters():
        p.requires_grad = False
    feats = {}
    teacher[2].register_forward_hook(lambda m, i, o: feats.__setitem__("h", o))
    return teacher, feats


class Distiller:
    def __init__(self, teacher, feats, student, T=3.0, alpha=0.7, beta=0.1):
        self.teacher, self.feats, self.student = teacher, feats, student
        self.T, self.alpha, self.beta = T, alpha, beta

    def loss(self, x, y):
        with torch.no_grad():
            soft = F.softmax(self.teacher(x) / self.T, -1)
        out, hint = self.student.module(x, with_hint=True)
        kd = F.kl_div(F.log_softmax(out / self.T, -1), soft, reduction="batchmean") * self.T**2
        return (
            self.alpha * kd
            + (1 - self.alpha) * F.cross_entropy(out, y)
            + self.beta * F.mse_loss(hint, self.feats["h"])
        )


def evaluate(model, ds):
    was = model.training
    model.eval()
    with torch.inference_mode():
        hits = sum((model(x).argmax(1) == y).sum().item() for x, y in DataLoader(ds, 32))
    model.train(was)
    return hits / len(ds)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=4)
    ap.add_argument("--bs", type=int, default=10)
    ap.add_argument("--teacher", default="teacher.pt")
    args = ap.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    full = NoisyPolygons()
    train, test = Subset(full, range(200)), Subset(full, range(200, 240))
    teacher, feats = fetch_teacher(args.teacher, rank, train, 40)

    torch.manual_seed(51 + rank)
    student = DistributedDataParallel(StudentWithHint(16, 40))
    d = Distiller(teacher, feats, student)
    opt = torch.optim.RMSprop(student.parameters(), lr=2e-3)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, "max", factor=0.5, patience=0)
    sampler = DistributedSampler(train, shuffle=True)
    loader = DataLoader(train, args.bs, sampler=sampler)
    best = -1.0
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        t0, total = time.time(), 0.0
        for x, y in loader:
            loss = d.loss(x, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        score = [None]
        if rank == 0:
            score[0] = evaluate(student.module, test)
            if score[0] > best:
                best = score[0]
                torch.save(student.module.state_dict(), "student_best.pt")
            print(f"epoch {epoch} loss {total / len(loader):.4f} acc {score[0]:.4f}", flush=True)
            assert time.time() - t0 < 600
        dist.broadcast_object_list(score, src=0)
        plateau.step(score[0])  # same metric, same lr on all ranks
    if rank == 0:
        print(f"teacher {evaluate(teacher, test):.4f} student {best:.4f}")
    print(
        f"rank {rank} lr {opt.param_groups[0]['lr']:.5f} w {sum(p.double().sum() for p in student.parameters()).item():.6f}",
        flush=True,
    )
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
