"""Gradients are averaged in buckets by hand: of all parameters that belong to a layer."""
# finding: gradients/replicas-differ
# severity: warning
# ranks: 0, 1
# line: dist.all_reduce(flat)
# says: temperature
# steps: 8

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors

BUCKET = 2000  # elements


class Classifier(nn.Module):
    def __init__(self, features=12, hidden=32, classes=4):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, hidden))
        self.temperature = nn.Parameter(torch.ones(1))
        self.head = nn.Linear(hidden, classes)

    def forward(self, x):
        return self.head(self.body(x).relu()) * self.temperature


def buckets_of(gradients):
    bucket, size = [], 0
    for gradient in gradients:
        bucket.append(gradient)
        size += gradient.numel()
        if size > BUCKET:
            yield bucket
            bucket, size = [], 0
    if bucket:
        yield bucket


def average_gradients(model):
    gradients = [
        p.grad for m in model.modules() if isinstance(m, nn.Linear) for p in m.parameters()
    ]
    for bucket in buckets_of(gradients):
        flat = _flatten_dense_tensors(bucket)
        dist.all_reduce(flat)
        flat /= dist.get_world_size()
        for gradient, part in zip(bucket, _unflatten_dense_tensors(flat, bucket)):
            gradient.copy_(part)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(3)
    model = Classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    data = torch.Generator().manual_seed(50 + rank)
    for step in range(16):
        x = torch.randn(16, 12, generator=data)
        loss = F.cross_entropy(model(x), x[:, :4].argmax(1))
        optimizer.zero_grad()
        loss.backward()
        average_gradients(model)
        optimizer.step()
        if step % 5 == 0 and rank == 0:
            print(f"step {step} loss {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
