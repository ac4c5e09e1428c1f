"""Gradual unfreezing: the backbone is made trainable again after DDP was built."""

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Detector(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU())
        self.box_head = nn.Linear(8, 4)

    def forward(self, images):
        return self.box_head(self.backbone(images).mean((2, 3)))


def freeze(module, frozen):
    for parameter in module.parameters():
        parameter.requires_grad_(not frozen)


def distribute(model):
    wrapped = DistributedDataParallel(model)
    freeze(wrapped.module.backbone, frozen=False)  # "epoch 1: unfreeze"
    return wrapped


class Pictures(torch.utils.data.Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index + 1000 * torch.distributed.get_rank())
        return {
            "image": torch.rand(3, 8, 8, generator=generator),
            "box": torch.rand(4, generator=generator),
        }


def detection():
    model = Detector()
    freeze(model.backbone, frozen=True)

    def smooth_l1(model, batch):
        return nn.functional.smooth_l1_loss(model(batch["image"]), batch["box"])

    loader = torch.utils.data.DataLoader(Pictures(), batch_size=4)
    return model, loader, smooth_l1, torch.optim.AdamW(model.parameters()), distribute
