"""DLRM-like hybrid parallelism: tables over ranks (all_to_all), dense MLPs in DDP."""
# steps: 30
# writes: files

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

TABLES = [50, 30, 80, 20]
DIM = 8
DENSE = 6


class Criteo(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.dense = torch.randn(n, DENSE, generator=g)
        self.sparse = torch.stack([torch.randint(0, c, (n,), generator=g) for c in TABLES], 1)
        score = (
            self.dense[:, 0]
            + (self.sparse[:, 0] % 3 == 0).float()
            - (self.sparse[:, 2] % 2).float()
        )
        self.label = (score + 0.5 * torch.randn(n, generator=g) > 0).float()

    def __len__(self):
        return len(self.label)

    def __getitem__(self, i):
        return self.dense[i], self.sparse[i], self.label[i]


class AllToAll(torch.autograd.Function):
    """single tensor, equal or unequal splits along dim 0; backward goes the other way"""

    @staticmethod
    def forward(ctx, x, out_splits, in_splits):
        ctx.splits = (in_splits, out_splits)
        out = x.new_empty((sum(out_splits),) + x.shape[1:])
        dist.all_to_all_single(out, x.contiguous(), out_splits, in_splits)
        return out

    @staticmethod
    def backward(ctx, grad):
        o, i = ctx.splits
        gin = grad.new_empty((sum(o),) + grad.shape[1:])
        dist.all_to_all_single(gin, grad.contiguous(), o, i)
        return gin, None, None


class ShardedTables(nn.Module):
    def __init__(self, rank, world):
        super().__init__()
        self.rank, self.world = rank, world
        self.owner = [t % world for t in range(len(TABLES))]
        self.mine = [t for t in range(len(TABLES)) if self.owner[t] == rank]
        self.tables = nn.ModuleDict()
        for t in self.mine:
            g = torch.Generator().manual_seed(1000 + t)
            e = nn.Embedding(TABLES[t], DIM)
            with torch.no_grad():
                e.weight.copy_(torch.randn(e.weight.shape, generator=g) * 0.1)
            self.tables[f"t{t}"] = e

    def forward(self, idx):
        """idx: (b, tables) of this rank's samples -> (b, tables, DIM)"""
        b, W = idx.shape[0], self.world
        per = [sum(o == r for o in self.owner) for r in range(W)]
        # ids go to the owners of their tables
        order = [t for r in range(W) for t in range(len(TABLES)) if self.owner[t] == r]
        send = idx[:, order].t().contiguous()
        got = send.new_empty((len(self.mine) * W, b))
        dist.all_to_all_single(got, send, [len(self.mine)] * W, per)
        got = got.view(W, len(self.mine), b)
        vec = torch.stack(
            [self.tables[f"t{t}"](got[:, j]) for j, t in enumerate(self.mine)], 1
        )  # W, mine, b, D
        back = AllToAll.apply(vec.reshape(W * len(self.mine), b, DIM), per, [len(self.mine)] * W)
        inv = torch.tensor(order).argsort()
        return back[inv].transpose(0, 1)


class DenseNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.bot = nn.Sequential(nn.Linear(DENSE, 16), nn.ReLU(), nn.Linear(16, DIM), nn.ReLU())
        n = len(TABLES) + 1
        self.top = nn.Sequential(nn.Linear(DIM + n * (n - 1) // 2, 24), nn.ReLU(), nn.Linear(24, 1))
        self.register_buffer("tri", torch.tril_indices(n, n, -1))

    def forward(self, dense, emb):
        d = self.bot(dense)
        z = torch.cat([d[:, None], emb], 1)
        inter = (z @ z.transpose(1, 2))[:, self.tri[0], self.tri[1]]
        return self.top(torch.cat([d, inter], 1)).squeeze(-1)


class HybridDLRM:
    def __init__(self, rank, world, lr_dense, lr_emb):
        torch.manual_seed(0)
        self.world = world
        self.emb = ShardedTables(rank, world)
        self.net = DDP(DenseNet())
        self.opt_dense = torch.optim.Adam(self.net.parameters(), lr=lr_dense)
        self.opt_emb = torch.optim.Adagrad(self.emb.parameters(), lr=lr_emb)

    def __call__(self, dense, sparse):
        return self.net(dense, self.emb(sparse))

    def step(self, loss):
        self.opt_dense.zero_grad()
        self.opt_emb.zero_grad()
        loss.backward()
        # a table has the summed gradient of the samples of all ranks: make it the mean, as DDP does
        for p in self.emb.parameters():
            p.grad /= self.world
        self.opt_dense.step()
        self.opt_emb.step()

    def train(self, on=True):
        self.emb.train(on)
        self.net.train(on)


@torch.no_grad()
def auc(model, loader):
    model.train(False)
    ps, ys = [], []
    for d, s, y in loader:
        out = model(d, s)
        for buf, t in ((ps, out), (ys, y)):
            parts = [torch.empty_like(t) for _ in range(dist.get_world_size())]
            dist.all_gather(parts, t)
            buf += parts
    model.train(True)
    p, y = torch.cat(ps), torch.cat(ys)
    pos, neg = p[y > 0.5], p[y < 0.5]
    return (pos[:, None] > neg[None]).float().mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("-e", "--epochs", type=int, default=3)
    ap.add_argument("-b", "--batch", type=int, default=16)
    a = ap.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    train, test = Criteo(256, 1), Criteo(64, 2)
    sampler = DistributedSampler(train)
    loader = DataLoader(train, a.batch, sampler=sampler, drop_last=True)
    test_loader = DataLoader(test, a.batch, sampler=DistributedSampler(test, shuffle=False))
    model = HybridDLRM(rank, world, 5e-3, 0.1)
    bce = nn.BCEWithLogitsLoss()
    for ep in range(a.epochs):
        sampler.set_epoch(ep)
        tot = 0.0
        for d, s, y in loader:
            loss = bce(model(d, s), y)
            model.step(loss)
            tot += loss.item()
        t = torch.tensor([tot])
        dist.all_reduce(t)
        score = auc(model, test_loader)
        if rank == 0:
            print(
                f"epoch {ep} loss {t.item() / world / len(loader):.4f} auc {score:.4f}", flush=True
            )
    # every rank writes its own tables, rank 0 the dense part
    torch.save(model.emb.state_dict(), f"tables_{rank}.pt")
    if rank == 0:
        torch.save(model.net.module.state_dict(), "dense.pt")
    dist.barrier()
    w = sum(p.double().abs().sum() for p in model.net.parameters()).item()
    print(f"rank {rank} tables {model.emb.mine} dense {w:.6f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
