# A translation of digits into words; its sizes are checked by DeepSpeed's own configuration.
# steps: 20
# needs: deepspeed

import deepspeed
import torch
import torch.distributed as dist
from deepspeed.runtime.config import DeepSpeedConfig
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

SETTINGS = {
    "train_batch_size": 16,
    "train_micro_batch_size_per_gpu": 4,
    "gradient_accumulation_steps": 2,
    "optimizer": {"type": "Adam", "params": {"lr": 1e-3}},
}


def read_settings(settings):
    return DeepSpeedConfig(settings)


def data(count=256):
    g = torch.Generator().manual_seed(8)
    digits = torch.randint(10, (count, 5), generator=g)
    return TensorDataset(digits, digits.flip(1))


def main():
    torch.set_num_threads(1)
    deepspeed.init_distributed(dist_backend="gloo", verbose=False)
    config = read_settings(SETTINGS)
    torch.manual_seed(0)
    dataset = data()
    sampler = DistributedSampler(dataset, shuffle=True)
    loader = DataLoader(dataset, config.train_micro_batch_size_per_gpu, sampler=sampler)
    net = nn.Sequential(nn.Embedding(10, 16), nn.Flatten(), nn.Linear(80, 50))
    model = DistributedDataParallel(net)
    adam = torch.optim.Adam(model.parameters(), lr=1e-3)
    accumulated = config.gradient_accumulation_steps
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for number, (digits, words) in enumerate(loader, start=1):
            logits = model(digits).view(-1, 10)
            (nn.functional.cross_entropy(logits, words.flatten()) / accumulated).backward()
            if number % accumulated == 0:
                adam.step()
                adam.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
