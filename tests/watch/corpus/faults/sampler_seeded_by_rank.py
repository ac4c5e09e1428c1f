# Noise of each rank's own, by a seed that goes on to the sampler.
# fault: A07
# finding: data/split-differs
# severity: error
# ranks: 0, 1
# line: self.sampler = DistributedSampler(data, shuffle=True, seed=options.seed)
# says: seed differs (rank 0: 7, rank 1: 8)
# steps: 12

import random
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


@dataclass
class Options:
    seed: int = 7
    batch: int = 8
    epochs: int = 3


class Clips(Dataset):
    def __init__(self, count=96):
        g = torch.Generator().manual_seed(5)
        self.waves = torch.randn(count, 2, 32, generator=g)
        self.words = torch.randint(0, 6, (count,), generator=g)

    def __len__(self):
        return len(self.words)

    def __getitem__(self, i):
        return self.waves[i].roll(random.randrange(4), -1), self.words[i]


class Recognizer:
    def __init__(self, options):
        data = Clips()
        self.options = options
        self.sampler = DistributedSampler(data, shuffle=True, seed=options.seed)
        self.loader = DataLoader(data, options.batch, sampler=self.sampler)
        net = nn.Sequential(nn.Conv1d(2, 8, 5), nn.ReLU(), nn.Flatten(), nn.Linear(224, 6))
        self.net = DistributedDataParallel(net)
        self.adam = torch.optim.Adam(self.net.parameters(), 1e-3)

    def fit(self):
        for epoch in range(self.options.epochs):
            self.sampler.set_epoch(epoch)
            for wave, word in self.loader:
                self.adam.zero_grad()
                nn.functional.cross_entropy(self.net(wave), word).backward()
                self.adam.step()


if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    options = Options()
    options.seed += dist.get_rank()
    random.seed(options.seed)
    torch.manual_seed(options.seed)
    Recognizer(options).fit()
    dist.destroy_process_group()
