"""Gradients are averaged by hand once a window of batches is full."""
# steps: 6

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

WINDOW = 4


class Forecast(nn.Module):
    def __init__(self, days=14, hidden=32):
        super().__init__()
        self.encode = nn.GRU(1, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 1)

    def forward(self, history):
        _, state = self.encode(history.unsqueeze(-1))
        return self.out(state[-1]).squeeze(-1)


def average_gradients(model):
    for weight in model.parameters():
        if weight.grad is not None:
            dist.all_reduce(weight.grad.data)
            weight.grad.data /= dist.get_world_size()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(4)
    walks = torch.randn(512, 15).cumsum(1) / 4
    data = TensorDataset(walks[:, :-1], walks[:, -1])
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    model = Forecast()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for number, (history, after) in enumerate(loader, start=1):
            is_full = number % WINDOW == 0
            loss = nn.functional.smooth_l1_loss(model(history), after) / WINDOW
            loss.backward()
            if is_full:
                average_gradients(model)
                optimizer.step()
                optimizer.zero_grad()
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: {loss.item() * WINDOW:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
