"""A MiniGPT trained with DDP for a while: prints, on rank 0, the median milliseconds of a step.

torchrun --nproc-per-node 2 tests/benchmarks/watched_steps.py [--steps N] [--width W] ...
"""

from __future__ import annotations

import argparse
import os
import time
from statistics import median

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

from ddpcheck.target.minigpt import MiniGPT, MiniGPTConfig, next_byte_loss

WARM_STEPS = 5


def main() -> None:
    """Train, and print what a step took and how much memory was used at most."""
    options = parsed()
    device = _device()
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    torch.manual_seed(0)
    samples = options.steps * options.batch * dist.get_world_size()
    data = TensorDataset(torch.randint(256, (samples, options.block + 1)))
    loader = DataLoader(data, options.batch, sampler=DistributedSampler(data), pin_memory=False)
    config = MiniGPTConfig(block=options.block, layers=options.layers, heads=8, width=options.width)
    model = DistributedDataParallel(MiniGPT(config).to(device))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    times = [_step(model, optimizer, tokens.to(device)) for (tokens,) in loader]
    if dist.get_rank() == 0:
        parameters = sum(each.numel() for each in model.parameters())
        peak = torch.cuda.max_memory_allocated() if device.type == "cuda" else 0
        print(f"step {1e3 * median(times[WARM_STEPS:]):.3f} ms {parameters} {peak}", flush=True)
    dist.destroy_process_group()


def parsed() -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--block", type=int, default=64)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=256)
    return parser.parse_args()


def _device() -> torch.device:
    if not torch.cuda.is_available():
        torch.set_num_threads(1)
        return torch.device("cpu")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    return torch.device("cuda", torch.cuda.current_device())


def _step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, tokens: torch.Tensor) -> float:
    started = time.perf_counter()
    next_byte_loss(model, tokens).backward()
    optimizer.step()
    optimizer.zero_grad()
    if tokens.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
