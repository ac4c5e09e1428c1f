"""Gradient accumulation with no_sync, clipping, and a metric reduced over ranks."""
# steps: 24

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

GRAD_ACCUM = 3
EPOCHS = 10


def step_micro(model, batch, scale):
    x, y = batch
    loss = nn.functional.mse_loss(model(x), y)
    (loss / scale).backward()
    return loss.detach()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    x = torch.randn(144, 5)
    y = torch.stack([x.sum(1), x.prod(1)], dim=1)
    dataset = TensorDataset(x, y)
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=6, sampler=sampler)
    model = DDP(nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, nesterov=True)
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        losses = []
        micro = []
        for batch in loader:
            micro.append(batch)
            if len(micro) < GRAD_ACCUM:
                continue
            with model.no_sync():
                losses += [step_micro(model, b, GRAD_ACCUM) for b in micro[:-1]]
            losses.append(step_micro(model, micro[-1], GRAD_ACCUM))
            norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
            optimizer.step()
            optimizer.zero_grad()
            micro = []
        mean = torch.stack(losses).mean()
        dist.all_reduce(mean)
        if dist.get_rank() == 0:
            print(f"epoch {epoch} loss {mean.item() / dist.get_world_size():.4f} norm {norm:.3f}")
    dist.destroy_process_group()


main()
