"""A plain DDP training that says how it was started, and what is left of whom at its end."""

import argparse
import copy
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Odd(list):
    """A batch that lets nobody walk through it."""

    def __iter__(self):
        raise TypeError("take the parts by their number")


def odd(samples):
    return Odd([torch.stack([sample[part] for sample in samples]) for part in range(2)])


def parsed():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fault", default="")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--out", default="")
    parser.add_argument("--end-with", type=int, default=0)
    return parser.parse_args()


def go_wrong(fault):
    if fault == "raise":
        raise ValueError("no such label")
    if fault == "exit-early":
        sys.exit(3)
    if fault == "die":
        os._exit(9)


def train(options):
    if options.fault == "raise-early" and os.environ["RANK"] == "1":
        raise OSError("no such dataset")
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(64, 8), torch.randn(64, 1))
    sampler = DistributedSampler(data)
    if options.fault == "odd-batch":
        loader = DataLoader(data, batch_size=4, sampler=sampler, collate_fn=odd)
    elif options.fault == "same-data":
        sampler = None
        loader = DataLoader(data, batch_size=4, shuffle=True)
    else:
        loader = DataLoader(data, batch_size=4, sampler=sampler)
    model = DistributedDataParallel(
        nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.1), nn.Linear(16, 1))
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    losses = []
    averaged = AveragedModel(model) if options.fault == "copy" else None
    for epoch in range(options.steps):
        if sampler is not None and options.fault != "epoch":
            sampler.set_epoch(epoch)
        for batch in loader:
            inputs, wanted = batch[0], batch[1]
            if rank == 1 and len(losses) == 2:
                go_wrong(options.fault)
            forward = model.module if options.fault == "bare" else model
            loss = nn.functional.mse_loss(forward(inputs), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if averaged is not None:
                averaged.update_parameters(model)
                copy.deepcopy(model)
            losses.append(loss.item())
            if len(losses) == options.steps:
                return rank, model, losses
    raise AssertionError


if __name__ == "__main__":
    # Each in one piece: two ranks print at the same time.
    print(f"started as {Path(__file__).name} {sys.argv[1:]} {Path(sys.path[0]).name}", flush=True)
    options = parsed()
    rank, model, losses = train(options)
    print(f"backward is {torch.Tensor.backward.__module__}", flush=True)
    if options.out and rank == 0:
        torch.save((losses, model.state_dict(), torch.get_rng_state()), options.out)
    dist.destroy_process_group()
    print("came to its end", flush=True)
    sys.exit(options.end_with)
