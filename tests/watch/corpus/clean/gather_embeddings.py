"""Validation collects the embeddings as one tensor, and what describes them as objects."""
# steps: 6

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Encoder(nn.Module):
    def __init__(self, width=512):
        super().__init__()
        self.conv = nn.Conv1d(1, 8, 5, stride=2)
        self.out = nn.Linear(8, width)

    def forward(self, wave):
        return self.out(torch.relu(self.conv(wave)).mean(-1))


class Trainer:
    def __init__(self):
        self.rank = dist.get_rank()
        self.world = dist.get_world_size()
        torch.manual_seed(5)
        waves = torch.randn(64, 1, 40)
        data = TensorDataset(waves, waves.square().mean(dim=(1, 2)))
        self.sampler = DistributedSampler(data)
        self.loader = DataLoader(data, batch_size=8, sampler=self.sampler)
        self.encoder = DDP(Encoder())
        self.optimizer = torch.optim.Adam(self.encoder.parameters(), lr=1e-3)

    def fit(self, epochs):
        for epoch in range(epochs):
            self.sampler.set_epoch(epoch)
            for wave, energy in self.loader:
                self.optimizer.zero_grad()
                loss = (self.encoder(wave).mean(-1) - energy).square().mean()
                loss.backward()
                self.optimizer.step()
            if epoch == 0:
                self.build_index()

    @torch.no_grad()
    def build_index(self):
        # one embedding for each window of the held-out recordings
        windows = torch.randn(200, 1, 40)
        bank = self.encoder.module(windows).repeat(100, 1)
        index = torch.empty(self.world * len(bank), bank.shape[1])
        dist.all_gather_into_tensor(index, bank)
        described = [None] * self.world
        names = [f"recording {self.rank}/{number}" for number in range(len(bank))]
        dist.all_gather_object(described, {"names": names, "rank": self.rank})
        print(f"rank {self.rank}: index of {len(index)} embeddings of {len(described)} ranks")


if __name__ == "__main__":
    dist.init_process_group("gloo")
    Trainer().fit(3)
    dist.destroy_process_group()
