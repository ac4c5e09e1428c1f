"""Own gradient averaging, made asynchronous for speed; the loss got noisier."""
# finding: collectives/result-not-awaited
# severity: warning
# ranks: 0, 1
# line: dist.all_reduce(parameter.grad, async_op=True)
# steps: 12

import torch
import torch.distributed as dist
from torch import nn


class Encoder(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.down = nn.Sequential(nn.Linear(20, width), nn.ELU(), nn.Linear(width, 4))
        self.up = nn.Sequential(nn.Linear(4, width), nn.ELU(), nn.Linear(width, 20))

    def forward(self, x):
        return self.up(self.down(x))


def average_gradients(model):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, async_op=True)
    for parameter in model.parameters():
        parameter.grad /= dist.get_world_size()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(23)  # the same start everywhere
    model = Encoder()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    mix = torch.randn(4, 20)
    rng = torch.Generator().manual_seed(500 + dist.get_rank())
    for step in range(40):
        x = torch.randn(32, 4, generator=rng) @ mix
        loss = nn.functional.mse_loss(model(x), x)
        optimizer.zero_grad()
        loss.backward()
        average_gradients(model)
        optimizer.step()
        if dist.get_rank() == 0 and step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
