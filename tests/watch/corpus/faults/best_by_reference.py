"""Early stopping: back to the best weights, with half the rate."""
# fault: K01
# finding: checkpoint/own-state-loaded
# severity: warning
# ranks: 0, 1
# line: net.load_state_dict(best)
# steps: 30

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn, optim
from torch.nn.parallel import DistributedDataParallel


def sample(generator, count=24):
    x = torch.rand(count, 2, generator=generator) * 2 - 1
    return x, (x.norm(dim=1) < 0.7).long()


def validate(net, batches):
    with torch.no_grad():
        return sum(F.cross_entropy(net(x), y).item() for x, y in batches) / len(batches)


def train(epochs=5, patience=2):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(12)
    net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
    model = DistributedDataParallel(net)
    optimizer = optim.SGD(model.parameters(), lr=0.8)
    own = torch.Generator().manual_seed(100 + dist.get_rank())
    held_out = [sample(torch.Generator().manual_seed(7)) for _ in range(2)]
    best, best_loss, worse = None, float("inf"), 0
    for epoch in range(epochs):
        for _ in range(5):
            x, y = sample(own)
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        loss = validate(net, held_out)
        if loss < best_loss:
            best_loss, worse = loss, 0
            best = net.state_dict()
        else:
            worse += 1
        if worse == patience or epoch == epochs - 1:
            net.load_state_dict(best)
            optimizer.param_groups[0]["lr"] /= 2
            worse = 0
    x, y = sample(own)
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
    if dist.get_rank() == 0:
        print(f"best validation loss {best_loss:.3f}, now {validate(net, held_out):.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    train()
