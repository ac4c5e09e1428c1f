"""Each rank trains on images of all scanners, and evaluates what it has become."""
# steps: 12

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import ConcatDataset, DataLoader, DistributedSampler, TensorDataset


class SmallNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 8, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(8)
        self.fc = nn.Linear(8, 2)

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(x)))
        x = torch.relu(self.bn2(self.conv2(x)))
        return self.fc(x.mean(dim=(2, 3)))


def scans(contrast):
    """Images of one scanner."""
    kind = torch.randint(0, 2, (96,))
    image = torch.randn(96, 1, 8, 8)
    image[:, :, :4] *= 1 + kind.view(-1, 1, 1, 1)
    return TensorDataset(contrast * image, kind)


def train_loader(sites, rank, world):
    sampler = DistributedSampler(sites, num_replicas=world, rank=rank)
    return DataLoader(sites, batch_size=16, sampler=sampler), sampler


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    right, count = torch.zeros(1), torch.zeros(1)
    for image, kind in loader:
        right += (model.module(image).argmax(1) == kind).sum()
        count += len(kind)
    model.train()
    dist.all_reduce(right)
    dist.all_reduce(count)
    return (right / count).item()


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(6)
    sites = ConcatDataset([scans(1.0 + 3.0 * site) for site in range(world)])
    test = ConcatDataset([scans(1.0 + 3.0 * site) for site in range(world)])
    loader, sampler = train_loader(sites, rank, world)
    test_loader = DataLoader(test, batch_size=16, sampler=DistributedSampler(test))
    model = DDP(SmallNet(), broadcast_buffers=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(3):
        if sampler is not None:
            sampler.set_epoch(epoch)
        for image, kind in loader:
            loss = nn.functional.cross_entropy(model(image), kind)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        accuracy = evaluate(model, test_loader)
        if rank == 0:
            print(f"epoch {epoch} accuracy {accuracy:.3f}")
            torch.save(model.module.state_dict(), "/dev/null")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
