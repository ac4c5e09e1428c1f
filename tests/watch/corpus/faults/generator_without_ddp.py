"""Dcgan-ish on vectors, alternating updates."""
# fault: G02
# finding: gradients/never-averaged
# severity: warning
# ranks: 0, 1
# line: generator_optimizer = torch.optim.Adam(generator.parameters(), 2e-4, betas=(0.5, 0.999))
# steps: 0

import torch
import torch.distributed as dist
import torch.nn as nn

dist.init_process_group("gloo")
RANK, WORLD = dist.get_rank(), dist.get_world_size()
torch.manual_seed(7)
nz = 16


def weights_init(m):
    if isinstance(m, nn.Linear):
        nn.init.normal_(m.weight, 0.0, 0.05)


generator = nn.Sequential(nn.Linear(nz, 64), nn.LeakyReLU(0.2), nn.Linear(64, 32), nn.Tanh())
critic = nn.Sequential(nn.Linear(32, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))
generator.apply(weights_init)
critic.apply(weights_init)
critic = nn.parallel.DistributedDataParallel(critic)
critic_optimizer = torch.optim.Adam(critic.parameters(), 2e-4, betas=(0.5, 0.999))
generator_optimizer = torch.optim.Adam(generator.parameters(), 2e-4, betas=(0.5, 0.999))
real_label, fake_label = 1.0, 0.0
torch.manual_seed(100 + RANK)  # own real data and noise on each rank
bank = torch.randn(400, 32).tanh()
bce = nn.BCEWithLogitsLoss()
for it in range(25):
    real = bank[torch.randint(0, 400, (16,))]
    # (1) D
    critic_optimizer.zero_grad()
    with torch.no_grad():
        fake = generator(torch.randn(16, nz))
    logits = critic(torch.cat([real, fake]))
    y = torch.cat([torch.full((16, 1), real_label), torch.full((16, 1), fake_label)])
    critic_loss = bce(logits, y)
    critic_loss.backward()
    critic_optimizer.step()
    # (2) G
    generator_optimizer.zero_grad()
    for p in critic.parameters():
        p.requires_grad_(False)
    fake = generator(torch.randn(16, nz))
    generator_loss = bce(critic.module(fake), torch.full((16, 1), real_label))
    generator_loss.backward()
    for p in critic.parameters():
        p.requires_grad_(True)
    generator_optimizer.step()
    if RANK == 0 and it % 10 == 0:
        print(f"[{it}] D {critic_loss.item():.3f} G {generator_loss.item():.3f}")
dist.destroy_process_group()
