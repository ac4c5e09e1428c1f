"""TP x DP with DTensor; data loader made from the global rank."""
# fault: A01
# finding: sharding/replicated-parameter-drifts
# severity: error
# ranks: 0, 1, 2, 3
# line: for x, y in loader:
# steps: 0
# processes: 4

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Toy(Dataset):
    def __init__(self, n=256):
        g = torch.Generator().manual_seed(0)
        self.x = torch.randn(n, 16, generator=g)
        self.y = self.x @ torch.randn(16, 4, generator=g)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class FFN(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1 = nn.Linear(16, 64)
        self.w2 = nn.Linear(64, 4)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)))


def main():
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    tp, dp = mesh["tp"], mesh["dp"]
    torch.manual_seed(0)
    model = FFN()
    parallelize_module(model, tp, {"w1": ColwiseParallel(), "w2": RowwiseParallel()})
    ds = Toy()
    sampler = DistributedSampler(ds, seed=3)
    loader = DataLoader(ds, batch_size=8, sampler=sampler)
    optim = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in loader:
            loss = F.mse_loss(model(x), y)
            loss.backward()
            for p in model.parameters():  # data-parallel average of the local shards
                g = p.grad.to_local()
                dist.all_reduce(g, group=dp.get_group())
                g.div_(dp.size())
            optim.step()
            optim.zero_grad()
        print(
            "rank",
            dist.get_rank(),
            "epoch",
            epoch,
            "loss",
            loss.item(),
            "bias",
            model.w2.bias.to_local().sum().item(),
            flush=True,
        )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
