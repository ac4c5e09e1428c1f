"""Validation scores are gathered; the last batch is not full everywhere, and it aborts."""
# finding: ranks/other-collective
# severity: error
# ranks: 0, 1
# line: dist.all_gather(parts, scores)
# steps: 0

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def gathered(scores):
    parts = [torch.empty_like(scores) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, scores)
    return torch.cat(parts)


@torch.no_grad()
def validate(model, inputs, wanted):
    rank, world = dist.get_rank(), dist.get_world_size()
    model.eval()
    own = slice(rank * len(inputs) // world, (rank + 1) * len(inputs) // world)
    correct = model.module(inputs[own]).argmax(1) == wanted[own]
    scores = gathered(correct.float())
    model.train()
    return scores.mean().item()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(9)
    inputs = torch.randn(133, 10)
    wanted = (inputs[:, 0] > inputs[:, 1]).long()
    data = TensorDataset(inputs[:96], wanted[:96])
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=12, sampler=sampler)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        accuracy = validate(model, inputs[96:], wanted[96:])
        if dist.get_rank() == 0:
            print(f"epoch {epoch} accuracy {accuracy:.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
