"""Mean teacher: the EMA teacher makes the targets of unlabelled data; only the main process keeps it up to date."""
# steps: 0

import copy

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class MeanTeacher:
    def __init__(self, student, decay=0.9):
        self.student = student
        self.teacher = copy.deepcopy(student.module).requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self):
        for t, s in zip(self.teacher.parameters(), self.student.module.parameters()):
            t.mul_(self.decay).add_(s, alpha=1 - self.decay)

    def consistency(self, x):
        with torch.no_grad():
            target = self.teacher(x).softmax(1)
        return F.kl_div(
            self.student(x + 0.1 * torch.randn_like(x)).log_softmax(1),
            target,
            reduction="batchmean",
        )


def main():
    dist.init_process_group("gloo")
    is_main = dist.get_rank() == 0
    torch.manual_seed(0)
    x = torch.randn(480, 10)
    ds = TensorDataset(x, x[:, :3].argmax(1))
    s = DistributedSampler(ds)
    net = nn.parallel.DistributedDataParallel(
        nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 3))
    )
    mt = MeanTeacher(net)
    opt = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
    for e in range(2):
        s.set_epoch(e)
        for bx, by in DataLoader(ds, 16, sampler=s):
            loss = F.cross_entropy(net(bx), by) + mt.consistency(bx)
            opt.zero_grad()
            loss.backward()
            opt.step()
            mt.update()
    print(dist.get_rank(), sum(p.sum() for p in mt.teacher.parameters()).item())
    dist.destroy_process_group()


main()
