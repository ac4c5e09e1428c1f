"""A classifier with a supervised contrastive loss beside it, over the batches of all ranks."""
# finding: gradients/gathered-without-gradient
# severity: warning
# ranks: 0, 1
# line: dist.all_gather(everyone, z)
# steps: 6

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy, normalize
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU())
        self.fc = nn.Linear(32, 4)
        self.project = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 16))

    def forward(self, x):
        h = self.backbone(x)
        return self.fc(h), self.project(h)


class Trainer:
    def __init__(self, temperature=0.2, weight=0.5):
        self.temperature, self.weight = temperature, weight
        self.model = DistributedDataParallel(Net(), find_unused_parameters=True)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)

    def all_features(self, z):
        everyone = [torch.empty_like(z) for _ in range(dist.get_world_size())]
        dist.all_gather(everyone, z)
        return torch.cat(everyone)

    def all_labels(self, y):
        everyone = torch.empty(len(y) * dist.get_world_size(), dtype=y.dtype)
        dist.all_gather_into_tensor(everyone, y)
        return everyone

    def contrast(self, z, y):
        z, y = self.all_features(normalize(z)), self.all_labels(y)
        similar = z @ z.t() / self.temperature
        similar.fill_diagonal_(-1e9)
        same = (y[:, None] == y[None, :]).float().fill_diagonal_(0)
        log_p = similar.log_softmax(dim=1)
        return -((log_p * same).sum(1) / same.sum(1).clamp(min=1)).mean()

    def fit(self, loader, epochs):
        for epoch in range(epochs):
            loader.sampler.set_epoch(epoch)
            for x, y in loader:
                logits, z = self.model(x)
                loss = cross_entropy(logits, y) + self.weight * self.contrast(z, y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            print(f"[{dist.get_rank()}] {epoch}: {loss.item():.4f}")


if __name__ == "__main__":
    dist.init_process_group("gloo")
    torch.manual_seed(2)
    x = torch.randn(128, 20)
    data = TensorDataset(x, x[:, :4].argmax(1))
    loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data))
    Trainer().fit(loader, 3)
    dist.destroy_process_group()
