"""2 x 2 ranks: rows share a batch, columns average. Stands still at the first log line."""
# finding: ranks/other-collective
# severity: error
# ranks: 2, 3
# line: dist.all_reduce(shown, group=places.row_group)
# processes: 4
# steps: 0

import torch
import torch.distributed as dist
from torch import nn


class Places:
    """Row and column of this rank, with a group for each."""

    def __init__(self):
        rank = dist.get_rank()
        rows = [dist.new_group([0, 1]), dist.new_group([2, 3])]
        columns = [dist.new_group([0, 2]), dist.new_group([1, 3])]
        self.row, self.column = rank // 2, rank % 2
        self.row_group, self.column_group = rows[self.row], columns[self.column]


def average_gradients(model, group):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, group=group)
        parameter.grad /= 4


def log(step, loss, places):
    shown = loss.detach().clone()
    if places.row == 0 or places.column == 0:
        dist.all_reduce(shown, group=places.row_group)
    dist.barrier()
    if dist.get_rank() == 0:
        print(f"step {step} loss {shown.item() / 2:.4f}")


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(16)
    places = Places()
    model = nn.Sequential(nn.Linear(6, 20), nn.ReLU(), nn.Linear(20, 6))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    rng = torch.Generator().manual_seed(places.row)
    for step in range(24):
        batch = torch.randn(16, 6, generator=rng)
        own = batch.chunk(2)[places.column]
        loss = nn.functional.mse_loss(model(own), own.roll(1, 1))
        optimizer.zero_grad()
        loss.backward()
        average_gradients(model, places.row_group)
        average_gradients(model, places.column_group)
        optimizer.step()
        if step % 8 == 7:
            log(step, loss, places)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
