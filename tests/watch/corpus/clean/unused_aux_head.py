"""A small segmentation net."""
# steps: 4

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class SegNet(nn.Module):
    """Says for each pixel whether it is bright compared with those around it."""

    def __init__(self, channels=8):
        super().__init__()
        self.down = nn.Conv2d(1, channels, 3, stride=2, padding=1)
        self.mid = nn.Conv2d(channels, channels, 3, padding=1)
        self.up = nn.ConvTranspose2d(channels, channels, 2, stride=2)
        self.classifier = nn.Conv2d(channels, 1, 1)

    def forward(self, x):
        h = torch.relu(self.down(x))
        h = torch.relu(self.mid(h))
        return self.classifier(self.up(h))


def main() -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(4)
    pictures = torch.rand(32, 1, 12, 12)
    masks = (pictures > nn.functional.avg_pool2d(pictures, 3, 1, 1)).float()
    dataset = TensorDataset(pictures, masks)
    sampler = DistributedSampler(dataset, shuffle=True)
    loader = DataLoader(dataset, batch_size=4, sampler=sampler)

    model = DDP(SegNet())
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    criterion = nn.BCEWithLogitsLoss()
    for epoch in range(4):
        sampler.set_epoch(epoch)
        for picture, mask in loader:
            optimizer.zero_grad()
            loss = criterion(model(picture), mask)
            loss.backward()
            optimizer.step()
    print("done", dist.get_rank(), loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
