"""Split a DDP training step into data wait, compute and exposed communication."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

import msgspec
import torch
from torch.nn.parallel import DistributedDataParallel

from ddpcheck.machine.core_waits import CoreWaits
from ddpcheck.measures.split import StepSplit
from ddpcheck.target.live import moved, settle
from ddpcheck.target.target import Loss

# DDP rebuilds its buckets after the first backward pass, and caches warm up.
WARM_UP_STEPS = 2


@dataclass(frozen=True)
class SplitParts:
    """What a step is made of."""

    model: DistributedDataParallel
    loss: Loss
    optimizer: torch.optim.Optimizer
    device: str


class _Times(msgspec.Struct, frozen=True):
    data_s: float
    forward_s: float
    backward_s: float
    optimizer_s: float
    step_s: float
    comm_s: float
    exposed_s: float

    @property
    def parts_s(self) -> float:
        return self.data_s + self.forward_s + self.backward_s + self.optimizer_s


def measure_split(parts: SplitParts, batches: Iterator[Any], steps: int) -> StepSplit:
    """Train ``steps`` steps; return the split.

    Exposed communication is the time from the end of the backward pass's compute to the end of its
    last all-reduce, which DDP takes for its own log: on a GPU on the device's time line. Taking
    "forward and backward" as compute and subtracting it from the same interval would always
    give 0. What compute loses where communication takes cores from it is compute, as in a trace.
    """
    parts.model._set_ddp_runtime_logging_sample_rate(1)  # else DDP times every 100th step only
    for _ in range(WARM_UP_STEPS):
        _timed_step(parts, batches)
    waits = CoreWaits()
    return _split([_timed_step(parts, batches) for _ in range(steps)], waits.share)


def _split(steps: Sequence[_Times], core_waits: float) -> StepSplit:
    # The parts of one real step, so that they add up to it: of those in the middle, the one that
    # was interrupted least. Parts that are measured wrongly are so in every step.
    ordered = sorted(steps, key=lambda times: times.step_s)
    middle = ordered[len(ordered) // 4 : 3 * len(ordered) // 4 + 1]
    typical = min(middle, key=lambda times: abs(times.step_s - times.parts_s))
    exposed_s = min(median(times.exposed_s for times in steps), typical.backward_s)
    return StepSplit(
        data_s=typical.data_s,
        forward_s=typical.forward_s,
        backward_s=typical.backward_s - exposed_s,
        exposed_comm_s=exposed_s,
        optimizer_s=typical.optimizer_s,
        step_s=typical.step_s,
        comm_s=median(times.comm_s for times in steps),
        steps=len(steps),
        steps_s=tuple(float(f"{times.step_s:.4g}") for times in steps),
        core_waits=core_waits,
    )


def _timed_step(parts: SplitParts, batches: Iterator[Any]) -> _Times:
    """Time one step from outside by the wall clock, and its parts by marks within it."""
    settle(parts.device)
    started = time.perf_counter()
    marks = _marked_step(parts, batches)
    settle(parts.device)
    step_s = time.perf_counter() - started
    data_s, forward_s, backward_s, optimizer_s = (
        start.until(end) for start, end in pairwise(marks)
    )
    comm_s, overlapped_s = _communication_s(parts.model)
    exposed_s = max(0.0, comm_s - overlapped_s)
    return _Times(data_s, forward_s, backward_s, optimizer_s, step_s, comm_s, exposed_s)


def _marked_step(parts: SplitParts, batches: Iterator[Any]) -> list[_Mark]:
    marks = [_Mark(parts.device)]
    batch = moved(next(batches), parts.device)
    marks.append(_Mark(parts.device))
    loss = parts.loss(parts.model, batch)
    marks.append(_Mark(parts.device))
    loss.backward()
    marks.append(_Mark(parts.device))
    parts.optimizer.step()
    parts.optimizer.zero_grad(set_to_none=False)
    marks.append(_Mark(parts.device))
    return marks


class _Mark:
    """A moment on the device's own time line: nothing waits for it inside the step."""

    def __init__(self, device: str) -> None:
        self._at_s = time.perf_counter()
        self._event = torch.cuda.Event(enable_timing=True) if device != "cpu" else None
        if self._event is not None:
            self._event.record()

    def until(self, later: _Mark) -> float:
        """Return the seconds from this mark to a later one; both must be past."""
        if self._event is None or later._event is None:
            return later._at_s - self._at_s
        return float(self._event.elapsed_time(later._event)) / 1e3


def _communication_s(model: DistributedDataParallel) -> tuple[float, float]:
    """Return the seconds from the first all-reduce's start to the last one's end, and to compute's."""
    logged = model._get_ddp_logging_data()
    names = ("backward_comm_time", "backward_compute_comm_overlap_time")
    whole_s, overlapped_s = (float(logged.get(name, 0)) / 1e9 for name in names)
    return whole_s, overlapped_s
