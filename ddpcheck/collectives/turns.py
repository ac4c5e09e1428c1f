"""Turns of compute and a collective, as in training: the same work on each rank."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

import torch
import torch.distributed as dist

from ddpcheck.check import Context
from ddpcheck.measures.lateness import STRETCH_TURNS, Turns, is_clear

# So much of one turn is compute that a tenth of it stands out from what a small all-reduce and
# the clock vary by.
CPU_SIZE, CPU_PRODUCTS = 192, 36  # some 8 ms on one core
GPU_SIZE, GPU_PRODUCTS = 4096, 16  # some 3 ms on an H200
MESSAGE_COUNT = 1024  # elements of the all-reduce
WARM_UPS = 3
KEPT_WAITS = 100


@dataclass(frozen=True)
class Plan:
    """How many stretches of turns are taken: from ``least`` on, until it is clear who is slower.

    That is by ``steady``, a part of the others' time, among ranks of one of the ``kinds``.
    """

    least: int
    most: int
    steady: float
    kinds: Mapping[int, str]


def take_turns(ctx: Context, plan: Plan) -> Turns:
    """Return what the turns took on this rank; all ranks take as many."""
    size, products = (GPU_SIZE, GPU_PRODUCTS) if ctx.on_gpu else (CPU_SIZE, CPU_PRODUCTS)
    random = torch.Generator(ctx.device).manual_seed(0)
    dtype = torch.float16 if ctx.on_gpu else torch.float32
    left = torch.randn(size, size, device=ctx.device, generator=random).to(dtype)
    out = torch.empty_like(left)
    message = torch.zeros(MESSAGE_COUNT, device=ctx.device)
    for _ in range(WARM_UPS):
        _turn(left, out, products, message)
    taken: list[tuple[float, float]] = []
    pace = median if ctx.on_gpu else min
    paces: dict[int, list[float]] = {rank: [] for rank in range(ctx.world_size)}
    while len(paces[ctx.rank]) < plan.least or _goes_on(paces, plan):
        stretch = [_turn(left, out, products, message) for _ in range(STRETCH_TURNS)]
        taken += stretch
        own = pace(computed for computed, _ in stretch)
        if plan.most == plan.least:
            paces[ctx.rank].append(own)
        else:
            _share(ctx, own, paces)
    mean_s = sum(computed for computed, _ in taken) / len(taken)
    waits = tuple(waited for _, waited in taken[:KEPT_WAITS])
    return Turns(tuple(paces[ctx.rank]), round(mean_s, 7), waits)


def _goes_on(paces: Mapping[int, list[float]], plan: Plan) -> bool:
    """Return the same on every rank: all know the same numbers."""
    count = max(len(own) for own in paces.values())
    return count < plan.most and not is_clear(paces, plan.kinds, plan.steady)


def _share(ctx: Context, own: float, paces: Mapping[int, list[float]]) -> None:
    shared = torch.zeros(ctx.world_size, dtype=torch.float64, device=ctx.device)
    shared[ctx.rank] = own
    dist.all_reduce(shared)
    for rank, each in enumerate(shared.tolist()):
        paces[rank].append(each)


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
