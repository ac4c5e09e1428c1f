"""Two ranks train in a group of their own; the third one evaluates what they send."""
# steps: 20
# processes: 3

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS, EVERY = 20, 5
EVALUATOR = 2


def build():
    return nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 2))


def points(count, rng):
    x = torch.randn(count, 8, generator=rng)
    return x, (x[:, 0] * x[:, 1] > 0).long()


def train(group, rank):
    rng = torch.Generator().manual_seed(70 + rank)
    model = DDP(build(), process_group=group)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(1, STEPS + 1):
        x, y = points(32, rng)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        if step % EVERY == 0 and rank == 0:
            weights = nn.utils.parameters_to_vector(model.parameters())
            dist.send(weights.detach(), dst=EVALUATOR)


@torch.no_grad()
def evaluate():
    model = build().eval()
    rng = torch.Generator().manual_seed(1)
    x, y = points(500, rng)
    weights = nn.utils.parameters_to_vector(model.parameters())
    for number in range(STEPS // EVERY):
        dist.recv(weights, src=0)
        nn.utils.vector_to_parameters(weights, model.parameters())
        right = (model(x).argmax(1) == y).float().mean()
        print(f"evaluation {number}: {right:.3f}")


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    trainers = dist.new_group([0, 1])
    if rank == EVALUATOR:
        evaluate()
    else:
        train(trainers, rank)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
