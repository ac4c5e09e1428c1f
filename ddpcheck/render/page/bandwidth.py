"""The bandwidth curve: bus bandwidth over size, with its spread and what could be expected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ddpcheck.measures.bus_bandwidth import bus_gbps
from ddpcheck.measures.collective_speed import Speed
from ddpcheck.measures.words import size
from ddpcheck.render.measured import are_sane, measured
from ddpcheck.render.page.drawing import (
    ALARM,
    DASHES,
    FAINT,
    MARKERS,
    SERIES,
    Numbers,
    Plot,
    drawn,
    label,
)
from ddpcheck.report import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SPEEDS, LINKS = "collectives/low-bandwidth", "collectives/far-below-links"
USUAL_MEMORY = "contiguous"
FIRST_KIND = "all_reduce"
MOST_RANKS = 10**9
HOW = (
    "Bus bandwidth as nccl-tests defines it, of the median rank; the band around the first one "
    "is the middle half of the goes of all ranks."
)


class _Timed(msgspec.Struct, frozen=True):
    """The part of the facts that is drawn; ``before`` are the speeds of a baseline."""

    world_size: int
    speeds: tuple[Speed, ...]
    before: tuple[Speed, ...] = ()
    loopback_gbps: float | None = None


class _Way(msgspec.Struct, frozen=True):
    gbps: float
    words: str = ""


class _Linked(msgspec.Struct, frozen=True):
    ways: tuple[_Way, ...] | None


class Point(NamedTuple):
    """Decimal GB/s in one size: the median rank's, and the middle half of all ranks' goes."""

    size_bytes: int
    low_gbps: float
    gbps: float
    high_gbps: float


class Expected(NamedTuple):
    """What the links, or the loopback, carry, in decimal GB/s."""

    gbps: float
    words: str


Curves = Mapping[str, Sequence[Point]]


def bandwidth_plot(report: Report) -> Plot | None:
    """Return bus bandwidth over size for each collective, None where none was timed."""
    timed = measured(report, SPEEDS, _Timed)
    first = next(iter(timed.values()), None)
    if first is None or not 1 < first.world_size < MOST_RANKS:
        return None
    curves = curves_of([own.speeds for own in timed.values()], first.world_size)
    if not curves:
        return None
    before = curves_of([first.before], first.world_size).get(FIRST_KIND, [])
    expected = _expected(report, timed)
    best = max(point.gbps for points in curves.values() for point in points)
    alternative = f"Bus bandwidth over size for {len(curves)} collectives, at most {best:.3g} GB/s"
    svg = drawn("bandwidth", alternative, lambda to: _paint(to, curves, before, expected))
    return Plot("Bandwidth of collectives", _caption(expected, before), svg, _numbers(curves))


def curves_of(speeds: Sequence[Sequence[Speed]], world_size: int) -> Curves:
    """Return the points of each collective by rising size; ``speeds`` are those of each rank."""
    by_name: dict[tuple[str, int], list[Speed]] = {}
    for own in speeds:
        for speed in own:
            if speed.memory == USUAL_MEMORY and _is_sane(speed):
                by_name.setdefault((speed.kind, speed.size_bytes), []).append(speed)
    found: dict[str, list[Point]] = {}
    for (kind, _), alike in sorted(by_name.items(), key=lambda each: each[0][1]):
        found.setdefault(kind, []).append(_point(alike, world_size))
    kinds = sorted(found, key=lambda kind: (kind != FIRST_KIND, kind))[: len(SERIES)]
    return {kind: found[kind] for kind in kinds}


def _is_sane(speed: Speed) -> bool:
    times = (speed.quarter_s, speed.median_s, speed.three_quarters_s, speed.steady_s)
    return are_sane(speed.size_bytes, *times)


def _point(alike: Sequence[Speed], world_size: int) -> Point:
    kind, size_bytes = alike[0].kind, alike[0].size_bytes
    took_s = (
        max(speed.three_quarters_s for speed in alike),
        median(speed.steady_s for speed in alike),
        min(speed.quarter_s for speed in alike),
    )
    return Point(size_bytes, *(bus_gbps(kind, world_size, size_bytes, each) for each in took_s))


def _expected(report: Report, timed: Mapping[int, _Timed]) -> Expected | None:
    linked = measured(report, LINKS, _Linked)
    ways = [way for own in linked.values() for way in own.ways or () if are_sane(way.gbps)]
    if ways and all(own.ways for own in linked.values()):
        slowest = min(ways, key=lambda way: way.gbps)
        return Expected(slowest.gbps, f"the slowest link ({label(slowest.words)})")
    loopback = [own.loopback_gbps for own in timed.values() if own.loopback_gbps]
    if loopback and are_sane(loopback[0]):
        return Expected(loopback[0], "one TCP connection over loopback")
    return None


def _caption(expected: Expected | None, before: Sequence[Point]) -> str:
    told = [HOW]
    if expected:
        told.append(f"The dashed line is what {expected.words} carries: {expected.gbps:.3g} GB/s.")
    if before:
        told.append("The dotted line is the all_reduce of the baseline.")
    return " ".join(told)


def _paint(
    figure: Figure, curves: Curves, before: Sequence[Point], expected: Expected | None
) -> None:
    axes = figure.add_subplot(xscale="log", yscale="log", xlabel="size", ylabel="GB/s")
    axes.grid(visible=True, linewidth=0.6)
    for place, (kind, points) in enumerate(curves.items()):
        sizes = [point.size_bytes for point in points]
        low, high = [point.low_gbps for point in points], [point.high_gbps for point in points]
        axes.plot(
            sizes,
            [point.gbps for point in points],
            label=label(kind),
            color=SERIES[place],
            linestyle=DASHES[place],
            linewidth=1.6,
            marker=MARKERS[place],
            markersize=4,
        )
        if place == 0:
            axes.fill_between(sizes, low, high, color=SERIES[0], alpha=0.18, linewidth=0)
    if before:
        sizes, speeds = [each.size_bytes for each in before], [each.gbps for each in before]
        axes.plot(sizes, speeds, ":", color=FAINT, linewidth=2, label="all_reduce before")
    if expected:
        axes.axhline(expected.gbps, color=ALARM, linestyle=(0, (6, 3)), linewidth=1.2)
    ticks = sorted({point.size_bytes for points in curves.values() for point in points})
    shown = ticks[:: max(1, len(ticks) // 4)]
    axes.set_xticks(shown, [size(tick) for tick in shown])
    axes.minorticks_off()
    # Powers would be set as formulas.
    axes.yaxis.set_major_formatter("{x:g}")
    figure.legend(loc="outside upper left", ncols=2, handlelength=2.6)


def _numbers(curves: Curves) -> Numbers:
    rows = [
        (kind, size(point.size_bytes), *(f"{each:.3g}" for each in point[1:]))
        for kind, points in curves.items()
        for point in points
    ]
    return Numbers(("collective", "size", "slowest quarter", "GB/s", "fastest quarter"), rows)
