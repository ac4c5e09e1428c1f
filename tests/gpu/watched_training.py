"""A DDP training on GPUs as people write it, with a fault on demand."""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

parser = argparse.ArgumentParser()
parser.add_argument("--fault", default="")
parser.add_argument("--out", default="")
options = parser.parse_args()

local = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local)
dist.init_process_group("nccl")
torch.use_deterministic_algorithms(mode=True)
torch.manual_seed(0)
data = TensorDataset(torch.randn(512, 64), torch.randint(10, (512,)))
sampler: DistributedSampler[tuple[torch.Tensor, ...]] | None = DistributedSampler(data)
if options.fault == "same-data":
    sampler = None
loader = DataLoader(
    data, batch_size=32, sampler=sampler, num_workers=2, pin_memory=True, drop_last=True
)
net = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Dropout(0.1), nn.Linear(256, 10)).cuda()
model = DistributedDataParallel(net, device_ids=[local])
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
losses = []
for epoch in range(4):
    if sampler is not None:
        sampler.set_epoch(epoch)
    for step, batch in enumerate(loader):
        images, labels = (each.cuda(non_blocking=True) for each in batch)
        with torch.autocast("cuda", torch.bfloat16):
            loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if options.fault == "drift" and local == 1 and epoch == 0 and step == 2:
            optimizer.param_groups[0]["lr"] *= 2
        optimizer.step()
        losses.append(loss.item())
if options.out and local == 0:
    weights = {name: value.cpu() for name, value in net.state_dict().items()}
    torch.save((losses, weights), options.out)
dist.destroy_process_group()
