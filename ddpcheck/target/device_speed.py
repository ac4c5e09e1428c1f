"""How fast a GPU multiplies, and copies from and to the host."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import torch

T = TypeVar("T")
# Some products in one go hide what starting one takes.
GO_COUNT = 10
# Clocks take some milliseconds to rise, and NVML as many to answer.
LOOK_S = 0.04
LOOKS_COUNT = 4
FIRST_WITH_BF16 = (8, 0)  # compute capability; older GPUs emulate it
# Large enough that a copy's start does not count; small enough to leave the link to others.
COPY_BYTES = 8 * 2**20
# Ranks that copy at once halve each other's speed: each lets the link alone for 20 times as long
# as it copies, by filling memory, so that some of its copies have the link for themselves.
FILLED_BYTES = 64 * 2**20
FILLS_COUNT = 150
# Some milliseconds of copies: the driver answers in less, and peers still find the link free.
LOAD_COUNT = 12

Answer = TypeVar("Answer")


def matmul_tflops(device: str, size: int, goes: int) -> list[float]:
    """Return the TFLOP/s of each go of square bfloat16 products (float16 where it is emulated).

    A product of two n by n matrices counts as 2 n ** 3 operations.
    """
    took_s = _timed_s(_products(device, size), lambda: None, goes)
    return [2 * size**3 * GO_COUNT / each_s / 1e12 for each_s in took_s]


def seen_at_work(device: str, size: int, look: Callable[[], T]) -> list[T]:
    """Return what ``look`` sees while the GPU multiplies without a pause, a few looks apart."""
    multiply = _products(device, size)
    (go_s,) = _timed_s(multiply, lambda: None, 1)
    looks: list[T] = []
    marks = [torch.cuda.Event() for _ in range(LOOKS_COUNT)]
    for mark in marks:
        for _ in range(math.ceil(LOOK_S / go_s)):
            multiply()
        mark.record()
    # After each part of the work the next one is under way, and hides what a look takes.
    for mark in marks[:-1]:
        mark.synchronize()
        looks.append(look())
    marks[-1].synchronize()
    return looks


def _products(device: str, size: int) -> Callable[[], None]:
    """Return what starts a go of products, of random numbers as in training."""
    native = torch.cuda.get_device_capability(device) >= FIRST_WITH_BF16
    dtype = torch.bfloat16 if native else torch.float16
    # A GPU draws less power, and runs faster, on zeros.
    random = torch.Generator(device).manual_seed(0)
    left = torch.randn(size, size, device=device, generator=random).to(dtype)
    out = torch.empty_like(left)

    def multiply() -> None:
        for _ in range(GO_COUNT):
            torch.mm(left, left, out=out)

    return multiply


def copy_gbps(device: str, goes: int) -> tuple[float, float]:
    """Return decimal GB/s of the fastest copy from pinned host memory to the GPU, and back."""
    there = torch.empty(COPY_BYTES, dtype=torch.uint8, device=device)
    here = torch.empty(COPY_BYTES, dtype=torch.uint8, pin_memory=True)
    filled = torch.empty(FILLED_BYTES, dtype=torch.uint8, device=device)

    def pause() -> None:
        for _ in range(FILLS_COUNT):
            filled.zero_()

    to_device_s = _timed_s(lambda: there.copy_(here, non_blocking=True), pause, goes)
    to_host_s = _timed_s(lambda: here.copy_(there, non_blocking=True), pause, goes)
    return COPY_BYTES / min(to_device_s) / 1e9, COPY_BYTES / min(to_host_s) / 1e9


def asked_under_load(device: str, question: Callable[[], Answer]) -> Answer:
    """Return the answer to a question that is asked while copies to the GPU are under way."""
    there = torch.empty(COPY_BYTES, dtype=torch.uint8, device=device)
    here = torch.empty(COPY_BYTES, dtype=torch.uint8, pin_memory=True)
    for _ in range(LOAD_COUNT):
        there.copy_(here, non_blocking=True)
    answer = question()
    torch.cuda.synchronize(device)
    return answer


def _timed_s(work: Callable[[], object], pause: Callable[[], None], goes: int) -> list[float]:
    """Return the seconds of each go but the first one, by the GPU's own clock."""
    marks: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []
    for _ in range(goes + 1):
        pause()
        marks.append((torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)))
        marks[-1][0].record()
        work()
        marks[-1][1].record()
    marks[-1][1].synchronize()
    return [start.elapsed_time(end) / 1e3 for start, end in marks[1:]]
