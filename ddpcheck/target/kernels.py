"""How much of the communication kernels' time runs beside compute, from torch.profiler."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch._C._autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from ddpcheck.measures.intervals import length, uncovered
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


def _overlap(trace: profile, steps: int) -> Kernels:
    # Annotations of ranges (such as "nccl:all_reduce") stand on the GPU's line too: no kernels.
    kernels = [
        event
        for event in trace.events() or []
        if event.device_type == DeviceType.CUDA and not getattr(event, "is_user_annotation", False)
    ]
    spans = [(_is_nccl(e.name), (e.time_range.start, e.time_range.end)) for e in kernels]
    comm = [span for is_nccl, span in spans if is_nccl]
    compute = [span for is_nccl, span in spans if not is_nccl]
    return Kernels(
        comm_s=length(comm) / 1e6 / steps,
        compute_s=length(compute) / 1e6 / steps,
        exposed_comm_s=uncovered(comm, compute) / 1e6 / steps,
    )


def _is_nccl(name: str) -> bool:
    return name.startswith("nccl") and "Kernel" in name
