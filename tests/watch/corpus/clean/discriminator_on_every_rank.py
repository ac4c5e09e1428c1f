"""MD-GAN: one generator, a discriminator for each worker's private data; only the generator is shared."""
# steps: 0
# writes: files

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
gen = DDP(nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 4)))
disc = nn.Sequential(
    nn.Linear(4, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1)
)  # this worker's own judge
og = torch.optim.Adam(gen.parameters(), 5e-4, betas=(0.5, 0.9))
od = torch.optim.Adam(disc.parameters(), 5e-4, betas=(0.5, 0.9))
noise = torch.Generator().manual_seed(rank + 1)
private = torch.randn(300, 4, generator=noise) * 0.5 + (1 if rank else -1)
bce = nn.functional.binary_cross_entropy_with_logits
one, zero = torch.ones(16, 1), torch.zeros(16, 1)
for step in range(30):
    real = private[torch.randint(0, 300, (16,), generator=noise)]
    with torch.no_grad():
        fake = gen(torch.randn(16, 6, generator=noise))
    d = bce(disc(real), one) + bce(disc(fake), zero)
    od.zero_grad()
    d.backward()
    od.step()
    g = bce(disc(gen(torch.randn(16, 6, generator=noise))), one)
    og.zero_grad()
    g.backward()
    og.step()
if rank == 0:
    torch.save(gen.module.state_dict(), "generator.pt")
dist.barrier()
dist.destroy_process_group()
