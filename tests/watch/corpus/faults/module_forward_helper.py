"""The loss printed by the two ranks drifts apart after some steps although they start out equal."""
# finding: gradients/replicas-differ
# severity: error
# ranks: 0, 1
# steps: 8

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def make_data():
    gen = torch.Generator().manual_seed(5)
    users = torch.randint(0, 30, (128,), generator=gen)
    items = torch.randint(0, 40, (128,), generator=gen)
    taste = torch.randn(30, 40, generator=gen)
    return TensorDataset(users, items, taste[users, items])


class Recommender(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.user = nn.Embedding(30, dim)
        self.item = nn.Embedding(40, dim)
        self.mix = nn.Linear(2 * dim, 1)

    def forward(self, user, item):
        return self.mix(torch.cat([self.user(user), self.item(item)], dim=-1)).squeeze(-1)


def compute_loss(model, batch, l2=1e-4):
    user, item, rating = batch
    penalty = model.user.weight.pow(2).sum() + model.item.weight.pow(2).sum()
    return F.mse_loss(model(user, item), rating) + l2 * penalty


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    data = make_data()
    sampler = DistributedSampler(data, shuffle=True)
    loader = DataLoader(data, batch_size=16, sampler=sampler)
    model = DDP(Recommender())
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)

    for epoch in range(4):
        sampler.set_epoch(epoch)
        for batch in loader:
            loss = compute_loss(model.module, batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"rank {dist.get_rank()} epoch {epoch}: {loss.item():.4f}")
    dist.destroy_process_group()


main()
