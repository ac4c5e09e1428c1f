"""Turns of compute and a collective, as in training: the same work on each rank."""

from __future__ import annotations

import time

import torch
import torch.distributed as dist

from ddpcheck.check import Context
from ddpcheck.measures.lateness import Turns

# So much of one turn is compute that a tenth of it stands out from what a small all-reduce and
# the clock vary by.
CPU_SIZE, CPU_PRODUCTS = 192, 36  # some 8 ms on one core
GPU_SIZE, GPU_PRODUCTS = 4096, 16  # some 4 ms on an H100
MESSAGE_COUNT = 1024  # elements of the all-reduce
WARM_UPS = 3


def take_turns(ctx: Context, count: int) -> Turns:
    """Return what the turns took on this rank."""
    size, products = (GPU_SIZE, GPU_PRODUCTS) if ctx.on_gpu else (CPU_SIZE, CPU_PRODUCTS)
    random = torch.Generator(ctx.device).manual_seed(0)
    dtype = torch.float16 if ctx.on_gpu else torch.float32
    left = torch.randn(size, size, device=ctx.device, generator=random).to(dtype)
    out = torch.empty_like(left)
    message = torch.zeros(MESSAGE_COUNT, device=ctx.device)
    taken = [_turn(left, out, products, message) for _ in range(WARM_UPS + count)][WARM_UPS:]
    return Turns(tuple(each[0] for each in taken), tuple(each[1] for each in taken))


def _turn(
    left: torch.Tensor, out: torch.Tensor, products: int, message: torch.Tensor
) -> tuple[float, float]:
    _settle(message)
    began = time.perf_counter()
    for _ in range(products):
        torch.mm(left, left, out=out)
    _settle(message)
    computed = time.perf_counter()
    dist.all_reduce(message)
    _settle(message)
    return round(computed - began, 7), round(time.perf_counter() - computed, 7)


def _settle(tensor: torch.Tensor) -> None:
    if tensor.is_cuda:
        torch.cuda.synchronize(tensor.device)
