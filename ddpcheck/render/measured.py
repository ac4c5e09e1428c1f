"""What ranks measured, as renderers show it, out of a report's facts and its section on training.

These are plain JSON that another version may have written: what cannot be read is left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from ddpcheck.measures.collective_speed import Speed, gbps, slowest
from ddpcheck.measures.split import StepSplit
from ddpcheck.report import Report

T = TypeVar("T", bound=msgspec.Struct)
Point = TypeVar("Point")
SPEED_CHECK = "collectives/low-bandwidth"
SPLIT_CHECK = "performance/exposed-communication"
BYTES_A_GB = 1e9
# What lies outside was never measured: a plot that it is in shows nothing else.
LEAST, MOST = 1e-12, 1e18


class _Speeds(msgspec.Struct):
    world_size: int
    speeds: tuple[Speed, ...]


class _Split(msgspec.Struct):
    split: StepSplit


def slowest_speeds(report: Report) -> list[tuple[Speed, float]]:
    """Return each collective and size as its slowest rank saw it, with its busbw in decimal GB/s."""
    told = measured(report, SPEED_CHECK, _Speeds)
    if not told:
        return []
    world_size = max(1, next(iter(told.values())).world_size)
    timed = slowest({rank: own.speeds for rank, own in told.items()})
    return [(each, gbps(each, world_size)) for each in timed if each.steady_s > 0]


def step_splits(report: Report) -> dict[int, StepSplit]:
    """Return the parts of each rank's profiled step, in wall seconds."""
    told = measured(report, SPLIT_CHECK, _Split)
    return {rank: own.split for rank, own in told.items() if _is_whole(own.split)}


def measured(report: Report, check: str, kind: type[T]) -> dict[int, T]:
    """Return the facts of a check by rank; a rank whose facts are not of this kind is left out."""
    found: dict[int, T] = {}
    for fact in report.facts.get(check, ()):
        own = read(fact.value, kind)
        if own is not None:
            found.update(dict.fromkeys(fact.ranks, own))
    return dict(sorted(found.items()))


def read(value: Any, kind: type[T]) -> T | None:
    """Return a plain value as a record, None where it is none; unknown fields do no harm."""
    # A number may be too large for a float, and a text be none: half a surrogate pair.
    with suppress(msgspec.ValidationError, OverflowError, UnicodeError):
        return msgspec.convert(value, kind, strict=False)
    return None


def number(value: Any) -> float | None:
    """Return a plain value as a finite number, None where it is none."""
    with suppress(OverflowError):
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return float(value) if is_number and math.isfinite(float(value)) else None
    return None


def section(training: Mapping[str, Any] | None, name: str) -> float | None:
    """Return a number of the report's section on training, or None."""
    return number((training or {}).get(name))


def rows(value: Any) -> list[Mapping[str, Any]]:
    """Return the mappings in a plain list, none for anything else."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def are_sane(*values: float) -> bool:
    """Return whether all are numbers that can have been measured: finite, and above zero."""
    return all(LEAST < value < MOST for value in values)


def are_sane_or_zero(*values: float) -> bool:
    """Return whether all are numbers that can have been measured, or 0."""
    return all(0 <= value < MOST for value in values)


def thinned(points: Sequence[Point], most: int) -> list[Point]:
    """Return at most ``most`` of the points, evenly spread, the first and the last among them."""
    if len(points) <= most:
        return list(points)
    step = (len(points) - 1) / (most - 1)
    return [points[round(place * step)] for place in range(most)]


def _is_whole(split: StepSplit) -> bool:
    parts = msgspec.structs.astuple(split)
    seconds = (each for each in parts if isinstance(each, float))
    return are_sane(split.step_s) and are_sane_or_zero(*seconds)
