"""Before the training its work is counted: with a model on the meta device, and with fake tensors."""
# steps: 0

import torch
import torch.distributed as dist
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.parallel import DistributedDataParallel
from torch.utils.flop_counter import FlopCounterMode

dist.init_process_group("gloo")
torch.manual_seed(0)


def made():
    return nn.Sequential(nn.Embedding(64, 32), nn.Linear(32, 64))


def loss_of(model, tokens):
    return nn.functional.cross_entropy(
        model(tokens).flatten(0, 1), tokens.flatten(), ignore_index=0
    )


with torch.device("meta"), FlopCounterMode(display=False) as counted:
    loss_of(made(), torch.randint(64, (4, 16))).backward()
with FakeTensorMode():
    loss_of(made(), torch.randint(64, (4, 16))).backward()
model = DistributedDataParallel(made())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
draws = torch.Generator().manual_seed(dist.get_rank())
for step in range(12):
    loss = loss_of(model, torch.randint(1, 64, (4, 16), generator=draws))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
if dist.get_rank() == 0:
    print(f"{counted.get_total_flops()} operations a step")
dist.destroy_process_group()
