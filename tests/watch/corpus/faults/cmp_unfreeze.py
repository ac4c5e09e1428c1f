"""torch.compile(ddp_model) with the default backend; the embedding is thawed after a warm-up phase."""
# fault: G05
# finding: gradients/replicas-differ
# severity: error
# ranks: 0, 1
# steps: 30

import torch
import torch.distributed as dist
import torch.nn as nn


class Recommender(nn.Module):
    def __init__(self, users=60, items=80, d=16):
        super().__init__()
        self.u, self.i = nn.Embedding(users, d), nn.Embedding(items, d)
        self.mlp = nn.Sequential(nn.Linear(2 * d, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, u, i):
        return self.mlp(torch.cat([self.u(u), self.i(i)], -1)).squeeze(-1)


class Ratings(torch.utils.data.Dataset):
    def __init__(self, n=640):
        g = torch.Generator().manual_seed(8)
        self.u = torch.randint(0, 60, (n,), generator=g)
        self.i = torch.randint(0, 80, (n,), generator=g)
        self.r = torch.sin(self.u * 0.3) + torch.cos(self.i * 0.2)

    def __len__(self):
        return len(self.r)

    def __getitem__(self, k):
        return self.u[k], self.i[k], self.r[k]


class WarmStart:
    def __init__(self, net, until):
        self.net, self.until, self.open = net, until, False

    def close(self):
        self.net.u.weight.requires_grad_(False)
        self.net.i.weight.requires_grad_(False)

    def tick(self, step):
        if step >= self.until and not self.open:
            self.open = True
            for emb in (self.net.u, self.net.i):
                emb.weight.requires_grad_(True)
            return True
        return False


def wrap(net):
    return torch.compile(nn.parallel.DistributedDataParallel(net))


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    net = Recommender()
    warm = WarmStart(net, until=8)
    warm.close()
    model = wrap(net)
    opt = torch.optim.Adam(net.parameters(), 5e-3)
    ds = Ratings()
    sampler = torch.utils.data.DistributedSampler(ds)
    loader = torch.utils.data.DataLoader(ds, 16, sampler=sampler, drop_last=True)
    step = 0
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for u, i, r in loader:
            if warm.tick(step):
                print("embeddings thawed", step)
            loss = nn.functional.mse_loss(model(u, i), r)
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1
        if dist.get_rank() == 0:
            print("epoch", epoch, "mse", loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
