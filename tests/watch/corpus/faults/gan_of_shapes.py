"""A tiny GAN that draws noisy rings: critic and generator each in DDP, one step of each a batch."""
# fault: G03
# finding: gradients/replicas-differ
# severity: error
# ranks: any
# steps: 30

import math

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as Parallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

LATENT = 6


def rings(count, seed=5):
    g = torch.Generator().manual_seed(seed)
    angle = 2 * math.pi * torch.rand(count, generator=g)
    radius = 1 + 0.05 * torch.randn(count, generator=g)
    return torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1)


class Generator(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(LATENT, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()
        )
        self.out = nn.Linear(width, 2)

    def forward(self, z):
        return self.out(self.body(z))


class Critic(nn.Sequential):
    def __init__(self, width=32):
        super().__init__(
            nn.Linear(2, width),
            nn.LeakyReLU(0.2),
            nn.Linear(width, width),
            nn.LeakyReLU(0.2),
            nn.Linear(width, 1),
        )


class GanTrainer:
    def __init__(self, rank):
        self.rank = rank
        self.critic, self.generator = Parallel(Critic()), Parallel(Generator())
        self.critic_optimizer = torch.optim.Adam(self.critic.parameters(), 2e-3, betas=(0.5, 0.9))
        self.generator_optimizer = torch.optim.Adam(
            self.generator.parameters(), 1e-3, betas=(0.5, 0.9)
        )
        self.criterion = nn.BCEWithLogitsLoss()
        self.noise = torch.Generator().manual_seed(100 + rank)

    def latent(self, count):
        return torch.randn(count, LATENT, generator=self.noise)

    def critic_step(self, real):
        with torch.no_grad():
            fake = self.generator(self.latent(len(real)))
        both = self.critic(torch.cat([real, fake])).squeeze(1)
        wanted = torch.cat([torch.ones(len(real)), torch.zeros(len(fake))])
        loss = self.criterion(both, wanted)
        self.critic_optimizer.zero_grad()
        loss.backward()
        self.critic_optimizer.step()
        return loss.item()

    def generator_step(self, count):
        for parameter in self.critic.parameters():
            parameter.requires_grad_(False)
        fooled = self.critic.module(self.generator.module(self.latent(count))).squeeze(1)
        loss = self.criterion(fooled, torch.ones(count))
        self.generator_optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.generator.parameters(), 1.0)
        self.generator_optimizer.step()
        for parameter in self.critic.parameters():
            parameter.requires_grad_(True)
        return loss.item()

    def run(self, loader, epochs):
        for epoch in range(epochs):
            loader.sampler.set_epoch(epoch)
            for (real,) in loader:
                c, g = self.critic_step(real), self.generator_step(len(real))
            if self.rank == 0:
                print(f"epoch {epoch} critic {c:.3f} generator {g:.3f}", flush=True)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    data = TensorDataset(rings(320))
    sampler = DistributedSampler(data, shuffle=True)
    loader = DataLoader(data, batch_size=16, sampler=sampler)
    GanTrainer(rank).run(loader, epochs=4)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
