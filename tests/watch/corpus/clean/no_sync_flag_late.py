"""A trainer that sets DDP's flag by hand, before the forward pass of the micro-step."""
# steps: 12

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Trainer:
    def __init__(self, net, loader, micro_steps=3):
        self.ddp = DistributedDataParallel(net)
        self.loader = loader
        self.micro_steps = micro_steps
        self.optimizer = torch.optim.Adam(self.ddp.parameters(), lr=1e-2)

    def predict(self, x):
        return self.ddp(x).squeeze(-1)

    def micro_step(self, x, y, number):
        self.ddp.require_backward_grad_sync = number == self.micro_steps - 1
        loss = nn.functional.smooth_l1_loss(self.predict(x), y)
        (loss / self.micro_steps).backward()
        self.ddp.require_backward_grad_sync = True
        return loss.detach()

    def train(self, epochs):
        for epoch in range(epochs):
            self.loader.sampler.set_epoch(epoch)
            number = 0
            for x, y in self.loader:
                loss = self.micro_step(x, y, number)
                number = (number + 1) % self.micro_steps
                if number == 0:
                    self.optimizer.step()
                    self.optimizer.zero_grad(set_to_none=True)
            print(f"rank {dist.get_rank()} epoch {epoch} loss {loss:.4f}")


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(4)
    x = torch.randn(144, 6)
    data = TensorDataset(x, x.sin().sum(1))
    loader = DataLoader(data, batch_size=6, sampler=DistributedSampler(data))
    net = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 1))
    Trainer(net, loader).train(4)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
