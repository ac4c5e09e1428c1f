"""What a trace of torch.profiler says of exposed communication on a GPU."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from torch.autograd.profiler_util import FunctionEvent

from ddpcheck.measures.intervals import Interval, uncovered
from ddpcheck.target.kernels import kernels_of


class Step(NamedTuple):
    """One step's time line: from its batch to the end of its last kernel, in microseconds."""

    whole_us: float
    communication: list[Interval]
    compute: list[Interval]

    @property
    def exposed_us(self) -> float:
        """Return for how long kernels of NCCL ran, and no other."""
        return uncovered(self.communication, self.compute)


class DeviceTrace:
    """What kernels say of steps, in the median.

    ``begins`` are those of the steps in microseconds, each of which waits for the device at its end.
    """

    def __init__(self, begins: Sequence[float], events: Sequence[FunctionEvent]) -> None:
        kernels: list[list[tuple[bool, Interval]]] = [[] for _ in begins]
        for is_nccl, span in kernels_of(events):
            if span[0] < begins[0]:
                continue  # of steps that warm up
            kernels[bisect_right(begins, span[0]) - 1].append((is_nccl, span))
        self._steps = [_step(begin, each) for begin, each in zip(begins, kernels, strict=True)]

    @property
    def waited(self) -> float:
        """Return the share of a step in which there is communication, and no compute."""
        return median(step.exposed_us / step.whole_us for step in self._steps)

    @property
    def exposed_s(self) -> float:
        """Return the seconds of a step in which there is communication, and no compute."""
        return median(step.exposed_us for step in self._steps) / 1e6


def _step(begin_us: float, kernels: Sequence[tuple[bool, Interval]]) -> Step:
    nccl, other = ([span for of_nccl, span in kernels if of_nccl is own] for own in (True, False))
    return Step(max(end for _, (_, end) in kernels) - begin_us, nccl, other)
