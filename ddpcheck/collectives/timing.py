"""How long a collective takes: each go by itself, with and without what starting it costs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from itertools import pairwise
from statistics import median
from typing import NamedTuple

import torch
import torch.distributed as dist

from ddpcheck.check import Context
from ddpcheck.collectives.agreement import Agreement
from ddpcheck.collectives.calls import Call
from ddpcheck.collectives.kinds import Kind

WARM_UPS = 2
# So many collectives are started while the GPU fills memory, for this many times as long as starting
# them is expected to take: 50 to 200 us each on hosts of H200, with outliers.
QUEUED_COUNT = 50
QUEUED_SLACK = 2.0
FILLED_BYTES = 2**28
TRIED_COUNT = 10
MIB = 2**20
# A slow link shows in smaller messages as well.
BUDGET_S = 5.0


class Pace(NamedTuple):
    """Bounds of a measurement: goes at least and at most, and seconds it may take, roughly."""

    least: int
    most: int
    budget_s: float


def timed_s(kind: Kind, call: Call, pace: Pace, agreed: Agreement) -> list[float]:
    """Return the seconds of each go, back to back, as this rank saw them.

    All ranks of the group make as many goes as its first one has time for. On a GPU the times are
    the GPU's own: from one event on the stream to the next, which is how nccl-tests counts, go by
    go.
    """
    warm_s = _on_host_s(kind, call, WARM_UPS)
    own = min(max(int(pace.budget_s / warm_s[-1]), pace.least), pace.most)
    goes = int(agreed.taken_over(lambda: str(own), decides=call.rank == 0))
    if call.got.is_cuda:
        return _on_device_s(lambda: _go(kind, call), goes)
    return _on_host_s(kind, call, goes)


def reductions_s(
    buffer: torch.Tensor, goes: int, group: dist.ProcessGroup | None = None
) -> list[float]:
    """Return the seconds of each of so many all-reduces of a buffer, which holds zeros."""

    def go() -> None:
        dist.all_reduce(buffer, group=group)

    for _ in range(WARM_UPS):
        go()
    if buffer.is_cuda:
        return _on_device_s(go, goes)
    took_s: list[float] = []
    for _ in range(goes):
        began = time.perf_counter()
        go()
        took_s.append(time.perf_counter() - began)
    return took_s


def affordable_bytes(
    ctx: Context, agreed: Agreement, most_bytes: int, goes: int, sharing: int = 1
) -> int:
    """Return how large a message may be so that so many go through in ``BUDGET_S``.

    ``sharing`` groups use one link at once. It is a multiple of 1 MiB, at least that; rank 0
    tells the others. The first message is tiny: NCCL connects for its algorithm by size, and
    that of large ones may name no path in its log.
    """
    reductions_s(torch.zeros(256, device=ctx.device), 1)
    took_s = min(reductions_s(torch.zeros(MIB // 4, device=ctx.device), 3)) * sharing
    fitting = int(BUDGET_S / (goes + WARM_UPS) / took_s)
    own = max(1, min(fitting, most_bytes // MIB))
    return MIB * int(agreed.taken_over(lambda: str(own), decides=ctx.rank == 0))


def wire_s(kind: Kind, call: Call) -> float | None:
    """Return the seconds of one go without what starting it from Python costs.

    That is of one of many that stand in the GPU's queue behind other work, all started before the
    first one begins. None without a GPU, and where the queue ran empty before they were started.
    """
    if not call.got.is_cuda:
        return None
    filled = torch.empty(FILLED_BYTES, dtype=torch.uint8, device=call.got.device)
    fills = _fills(kind, call, filled)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(fills):
        filled.zero_()
    _go(kind, call)  # ranks come to the front of their queues at different times: this one waits
    start.record()
    for _ in range(QUEUED_COUNT):
        _go(kind, call)
    end.record()
    has_run_empty = start.query()
    end.synchronize()
    return None if has_run_empty else start.elapsed_time(end) / 1e3 / QUEUED_COUNT


def _fills(kind: Kind, call: Call, filled: torch.Tensor) -> int:
    """Return how often to fill this memory, so that the GPU is busy while all are started."""
    fill_s = median(_on_device_s(filled.zero_, TRIED_COUNT))
    began = time.perf_counter()
    for _ in range(TRIED_COUNT):
        _go(kind, call)
    start_s = (time.perf_counter() - began) / TRIED_COUNT
    return math.ceil(QUEUED_SLACK * QUEUED_COUNT * start_s / fill_s)


def _go(kind: Kind, call: Call) -> None:
    for work in kind.call(call):
        work.wait()


def _on_host_s(kind: Kind, call: Call, goes: int) -> list[float]:
    took_s: list[float] = []
    for _ in range(goes):
        began = time.perf_counter()
        _go(kind, call)
        if call.got.is_cuda:
            torch.cuda.synchronize(call.got.device)
        took_s.append(time.perf_counter() - began)
    return took_s


def _on_device_s(go: Callable[[], object], goes: int) -> list[float]:
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(goes + 1)]
    marks[0].record()
    for mark in marks[1:]:
        go()
        mark.record()
    marks[-1].synchronize()
    return [a.elapsed_time(b) / 1e3 for a, b in pairwise(marks)]
