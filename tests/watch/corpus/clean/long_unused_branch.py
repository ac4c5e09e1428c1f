"""A branch that no batch of this run takes, and DDP told so."""
# steps: 30

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Detector(nn.Module):
    """The mask branch belongs to a later stage of training."""

    def __init__(self, with_masks=False):
        super().__init__()
        self.with_masks = with_masks
        self.backbone = nn.Sequential(
            nn.Conv2d(1, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 6, 3, stride=2), nn.ReLU()
        )
        self.box = nn.Linear(6 * 4 * 4, 2)
        self.mask = nn.ConvTranspose2d(6, 1, 3, stride=2)

    def forward(self, image):
        features = self.backbone(image)
        out = {"center": self.box(features.flatten(1))}
        if self.with_masks:
            out["mask"] = self.mask(features)
        return out


def scenes(count=72, size=9):
    gen = torch.Generator().manual_seed(23)
    where = torch.randint(0, size, (count, 2), generator=gen)
    image = 0.1 * torch.randn(count, 1, size, size, generator=gen)
    image[torch.arange(count), 0, where[:, 0], where[:, 1]] += 2
    return TensorDataset(image, where / (size - 1))


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(77)
    data = scenes()
    sampler = DistributedSampler(data, shuffle=True)
    loader = DataLoader(data, batch_size=6, sampler=sampler)
    detector = DistributedDataParallel(Detector(), find_unused_parameters=True)
    optimizer = torch.optim.Adam(detector.parameters(), lr=2e-3)
    for epoch in range(8):
        sampler.set_epoch(epoch)
        for image, center in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(detector(image)["center"], center)
            loss.backward()
            optimizer.step()
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
