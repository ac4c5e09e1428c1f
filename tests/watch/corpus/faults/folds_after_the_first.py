"""Cross validation: a model and an optimizer for each fold; from the second one on the loss goes
through the bare model."""
# finding: gradients/later-training-unseen
# severity: info
# ranks: 0, 1
# line: optimizer.step()
# says: only the first training was watched: 10 steps
# steps: 0

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, Subset, TensorDataset

FOLDS, SAMPLES = 3, 240


def train_fold(dataset, fold):
    kept = Subset(dataset, [i for i in range(SAMPLES) if i % FOLDS != fold])
    sampler = DistributedSampler(kept)
    loader = DataLoader(kept, batch_size=16, sampler=sampler)
    model = DistributedDataParallel(nn.Linear(10, 3))
    net = model if fold == 0 else model.module
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in loader:
            loss = F.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return loss.item()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    x = torch.randn(SAMPLES, 10)
    dataset = TensorDataset(x, x[:, :3].argmax(1))
    for fold in range(FOLDS):
        loss = train_fold(dataset, fold)
        if dist.get_rank() == 0:
            print(f"fold {fold}: {loss:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
