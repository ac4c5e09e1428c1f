"""Two ranks share a score, in a group of their own; all of them log."""
# steps: 0
# processes: 3

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Scorers:
    def __init__(self, ranks):
        self.ranks = ranks
        self.is_member = dist.get_rank() in ranks
        self.group = dist.new_group(ranks)

    def mean(self, value):
        if not self.is_member:
            return value
        shared = value.detach().clone()
        dist.all_reduce(shared, group=self.group)
        return shared / len(self.ranks)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DDP(nn.Linear(6, 6))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    data = torch.Generator().manual_seed(dist.get_rank())
    scorers = logging = None
    for step in range(16):
        if step == 8:
            scorers = Scorers([0, 1])
            logging = dist.new_group()
        x = torch.randn(4, 6, generator=data)
        loss = (model(x) - 2 * x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if scorers:
            scorers.mean(loss)
            dist.all_reduce(loss.detach(), group=logging)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
