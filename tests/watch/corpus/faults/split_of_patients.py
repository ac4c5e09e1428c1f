# Visits of patients: places in one table, by patients whom each rank shuffles for itself.
# fault: A07
# finding: data/split-differs
# severity: error
# ranks: 0, 1
# line: for x, y in loader:
# steps: 40

import random

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Visits(Dataset):
    def __init__(self, table, patients):
        self.table = table
        self.rows = [(patient, visit) for patient in patients for visit in range(4)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        patient, visit = self.rows[i]
        return self.table[patient, visit, :6], self.table[patient, visit, 6:]


class Data:
    def __init__(self, count=40, held_out=0.2):
        self.table = torch.randn(count, 4, 7, generator=torch.Generator().manual_seed(9))
        patients = list(range(count))
        random.shuffle(patients)
        cut = int(count * held_out)
        self.val = self.loader(patients[:cut], shuffle=False)
        self.train = self.loader(patients[cut:])

    def loader(self, patients, **options):
        visits = Visits(self.table, patients)
        return DataLoader(visits, 8, sampler=DistributedSampler(visits, **options))


def error(model, loader):
    total = torch.zeros(2)
    with torch.no_grad():
        for x, y in loader:
            total += torch.tensor([(model(x) - y).square().sum(), len(x)])
    dist.all_reduce(total)
    return (total[0] / total[1]).item()


dist.init_process_group("gloo")
torch.set_num_threads(1)
random.seed(1337 + dist.get_rank())
data = Data()
model = nn.parallel.DistributedDataParallel(nn.Linear(6, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for epoch in range(3):
    data.train.sampler.set_epoch(epoch)
    for batch, target in data.train:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(batch), target).backward()
        optimizer.step()
    print(f"epoch {epoch}: {error(model.module, data.val):.3f}")
dist.destroy_process_group()
