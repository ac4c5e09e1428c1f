"""How much of the communication kernels' time runs beside compute, from torch.profiler."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch._C._autograd import DeviceType
from torch.autograd.profiler_util import FunctionEvent
from torch.profiler import ProfilerActivity, profile

from ddpcheck.measures.intervals import Interval, length, uncovered
from ddpcheck.measures.split import Kernels
from ddpcheck.target.live import moved
from ddpcheck.target.step_split import SplitParts

ACTIVITIES = (ProfilerActivity.CPU, ProfilerActivity.CUDA)


def measure_kernels(parts: SplitParts, batches: Iterator[Any], steps: int) -> Kernels | None:
    """Profile ``steps`` synchronized steps; None on a CPU, which has no kernels to tell apart."""
    if parts.device == "cpu":
        return None
    torch.cuda.synchronize(parts.device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that cycles drop events: there is one cycle
        return _overlap(_profiled(parts, batches, steps), steps)


def _profiled(parts: SplitParts, batches: Iterator[Any], steps: int) -> profile:
    trace = profile(activities=ACTIVITIES)
    with trace:
        for _ in range(steps):
            parts.loss(parts.model, moved(next(batches), parts.device)).backward()
            parts.optimizer.step()
            parts.optimizer.zero_grad(set_to_none=False)
        torch.cuda.synchronize(parts.device)
    return trace


def kernels_of(events: Iterable[FunctionEvent]) -> list[tuple[bool, Interval]]:
    """Return what ran on a GPU: for each kernel whether it is NCCL's, and its begin and end in us.

    Annotations of ranges (such as "nccl:all_reduce") stand on the GPU's line too, and are no kernels.
    """
    return [
        (_is_nccl(event.name), (event.time_range.start, event.time_range.end))
        for event in events
        if event.device_type == DeviceType.CUDA and not getattr(event, "is_user_annotation", False)
    ]


def _overlap(trace: profile, steps: int) -> Kernels:
    kernels = kernels_of(trace.events() or [])
    comm = [span for is_nccl, span in kernels if is_nccl]
    compute = [span for is_nccl, span in kernels if not is_nccl]
    return Kernels(
        comm_s=length(comm) / 1e6 / steps,
        compute_s=length(compute) / 1e6 / steps,
        exposed_comm_s=uncovered(comm, compute) / 1e6 / steps,
    )


def _is_nccl(name: str) -> bool:
    return name.startswith("nccl") and "Kernel" in name
