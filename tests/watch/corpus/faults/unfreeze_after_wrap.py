"""Fine-tuning works while only the head trains; once the encoder is unfrozen results stop being reproducible."""
# finding: gradients/replicas-differ
# severity: error
# ranks: 0, 1
# steps: 14

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

WARMUP_EPOCHS = 2
TOTAL_EPOCHS = 6


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU())
        self.head = nn.Linear(24, 3)

    def forward(self, x):
        return self.head(self.encoder(x))

    def freeze(self):
        for p in self.encoder.parameters():
            p.requires_grad = False

    def unfreeze(self):
        for p in self.encoder.parameters():
            p.requires_grad = True


def blobs():
    g = torch.Generator().manual_seed(77)
    centers = 2 * torch.randn(3, 10, generator=g)
    label = torch.arange(96) % 3
    return TensorDataset(centers[label] + torch.randn(96, 10, generator=g), label)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    data = blobs()
    sampler = DistributedSampler(data, shuffle=True)
    loader = DataLoader(data, batch_size=12, sampler=sampler)

    net = Classifier()
    net.freeze()
    model = DDP(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    criterion = nn.CrossEntropyLoss()

    for epoch in range(TOTAL_EPOCHS):
        sampler.set_epoch(epoch)
        if epoch == WARMUP_EPOCHS:
            net.unfreeze()
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
        if dist.get_rank() == 0:
            print(f"epoch {epoch} loss {loss.item():.4f}")

    dist.destroy_process_group()


if __name__ == "__main__":
    main()
