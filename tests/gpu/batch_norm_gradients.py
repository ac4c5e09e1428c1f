"""Print how far DDP's gradients of the conv net are from those of one process, in float64."""

import os
import sys

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ddpcheck.target.builtin import seeded
from ddpcheck.target.convnet import CLASSES, SIDE, ConvNet, image_loss
from ddpcheck.train.parallel import Place, Share
from ddpcheck.train.recipe import Recipe
from ddpcheck.train.strategies.ddp import replicate

SHARE = 8


def gradients(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    image_loss(model, (images, labels)).backward()
    found = [each.grad for each in model.parameters() if each.grad is not None]
    return torch.cat([each.flatten() for each in found])


device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(device)
dist.init_process_group("nccl", device_id=device)
rank, ranks = dist.get_rank(), dist.get_world_size()
random = torch.Generator().manual_seed(0)
shape = (ranks * SHARE, 1, SIDE, SIDE)
images = torch.randn(shape, generator=random, dtype=torch.float64).to(device)
labels = torch.randint(CLASSES, shape[:1], generator=random).to(device)
recipe = Recipe(strategy="ddp", backend="nccl", device="cuda", sync_batchnorm=sys.argv[1] == "sync")
place = Place(recipe, device, Share(rank, ranks, dist.group.WORLD))
own = slice(rank * SHARE, (rank + 1) * SHARE)
replica = replicate(seeded(ConvNet).double().to(device), place)
seen = gradients(replica, images[own], labels[own])
alone = gradients(seeded(ConvNet).double().to(device), images, labels)
if rank == 0:
    print(float((seen - alone).norm() / alone.norm()))
dist.destroy_process_group()
