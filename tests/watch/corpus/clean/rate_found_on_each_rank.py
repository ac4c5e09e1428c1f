"""fastai-like learner: lr_find() before fit()."""
# steps: 0

import copy

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Learner:
    def __init__(self, dls, model, loss_func):
        self.dl, self.loss_func = dls, loss_func
        self.model = nn.parallel.DistributedDataParallel(model)

    def lr_find(self, start=1e-3, end=0.2, n=20):
        """on a copy, so that no synchronisation is needed"""
        m = copy.deepcopy(self.model.module)
        opt = torch.optim.SGD(m.parameters(), lr=start)
        best, best_lr, avg = float("inf"), start, 0
        it = iter(self.dl)
        for i in range(n):
            try:
                x, y = next(it)
            except StopIteration:
                it = iter(self.dl)
                x, y = next(it)
            lr = start * (end / start) ** (i / (n - 1))
            opt.param_groups[0]["lr"] = lr
            loss = self.loss_func(m(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            avg = 0.5 * avg + 0.5 * loss.item()
            if avg / (1 - 0.5 ** (i + 1)) < best:
                best, best_lr = avg / (1 - 0.5 ** (i + 1)), lr
        return best_lr / 10

    def fit(self, epochs, lr):
        opt = torch.optim.SGD(self.model.parameters(), lr=lr, momentum=0.9)
        for e in range(epochs):
            self.dl.sampler.set_epoch(e)
            for x, y in self.dl:
                self.loss_func(self.model(x), y).backward()
                opt.step()
                opt.zero_grad()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    x = torch.randn(480, 8)
    ds = TensorDataset(x, (x[:, :1] * 2 + x[:, 1:2] ** 2 + 0.5 * torch.randn(480, 1)))
    dl = DataLoader(ds, batch_size=12, sampler=DistributedSampler(ds))
    learn = Learner(dl, nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1)), nn.MSELoss())
    lr = learn.lr_find()
    box = [lr]
    dist.broadcast_object_list(box)
    lr = box[0]
    print(dist.get_rank(), "lr", lr, flush=True)
    learn.fit(2, lr)
    dist.destroy_process_group()
