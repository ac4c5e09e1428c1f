"""Stages of one width, written by hand: each rank sends what it made to the next one."""
# steps: 8
# processes: 4
# silent: gradients/replicas-differ

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

WIDTH, BATCH = 16, 8


class Stage(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(x)))


def receive(peer, *shape):
    tensor = torch.empty(*shape)
    dist.recv(tensor, peer)
    return tensor


def main():
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    is_first, is_last = rank == 0, rank == world_size - 1
    torch.manual_seed(40 + rank)
    stage = Stage()
    optimizer = torch.optim.Adam(stage.parameters(), lr=1e-3)
    data = torch.Generator().manual_seed(3)
    for step in range(20):
        x, y = torch.randn(BATCH, WIDTH, generator=data), torch.randn(BATCH, WIDTH, generator=data)
        came = x if is_first else receive(rank - 1, BATCH, WIDTH).requires_grad_()
        made = stage(came)
        optimizer.zero_grad()
        if is_last:
            loss = F.mse_loss(made, y)
            loss.backward()
            if step % 5 == 0:
                print(f"step {step} loss {loss.item():.4f}")
        else:
            dist.send(made.detach(), rank + 1)
            made.backward(receive(rank + 1, BATCH, WIDTH))
        if not is_first:
            dist.send(came.grad, rank - 1)
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
