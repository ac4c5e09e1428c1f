"""How strategies scale: speed-up over the number of ranks, beside what would be perfect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ddpcheck.render.measured import are_sane, read, rows
from ddpcheck.render.page.drawing import (
    DASHES,
    FAINT,
    MARKERS,
    SERIES,
    Numbers,
    Plot,
    drawn,
    label,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class _Row(msgspec.Struct, frozen=True):
    strategy: str
    ranks: int
    speed_up: float


class Point(NamedTuple):
    """How many times as fast as one process so many ranks are."""

    ranks: int
    speed_up: float


Curves = Mapping[str, Sequence[Point]]


def scaling_plot(training: Mapping[str, Any]) -> Plot | None:
    """Return the speed-up of each strategy, None where scaling on several ranks was not measured."""
    curves = _curves(training)
    if not curves:
        return None
    best = next(iter(curves))
    most = curves[best][-1]
    told = (
        f"{label(best)} is {most.speed_up:.2f} times as fast as one process on {most.ranks} ranks"
    )
    caption = f"The quickest, {told}. The dashed line would be perfect."
    svg = drawn("scaling", f"Speed-up over ranks; {told}", lambda figure: _paint(figure, curves))
    cells = [
        (strategy, str(point.ranks), f"{point.speed_up:.2f}")
        for strategy, points in curves.items()
        for point in points
    ]
    return Plot("Speed-up", caption, svg, Numbers(("strategy", "ranks", "speed-up"), cells))


def _curves(training: Mapping[str, Any]) -> Curves:
    """Return the points of each strategy by number of ranks, the quickest strategy first."""
    scaling = training.get("scaling")
    told = rows(scaling.get("rows")) if isinstance(scaling, Mapping) else []
    found: dict[str, dict[int, float]] = {}
    for row in filter(None, (read(each, _Row) for each in told)):
        if row.ranks > 1 and are_sane(row.ranks, row.speed_up):
            # What comes first has the usual bucket: others follow.
            found.setdefault(row.strategy, {}).setdefault(row.ranks, row.speed_up)
    curves = {
        strategy: [Point(*each) for each in sorted(points.items())]
        for strategy, points in found.items()
    }
    order = sorted(curves, key=lambda strategy: -curves[strategy][-1].speed_up)
    return {strategy: curves[strategy] for strategy in order[: len(SERIES)]}


def _paint(figure: Figure, curves: Curves) -> None:
    axes = figure.add_subplot(xlabel="ranks", ylabel="times one process")
    axes.grid(visible=True, linewidth=0.6)
    for place, (strategy, points) in enumerate(curves.items()):
        axes.plot(
            [1, *(point.ranks for point in points)],
            [1.0, *(point.speed_up for point in points)],
            label=label(strategy),
            color=SERIES[place],
            linestyle=DASHES[place],
            linewidth=1.6,
            marker=MARKERS[place],
            markersize=4,
        )
    counts = sorted({1, *(point.ranks for points in curves.values() for point in points)})
    axes.plot(counts, counts, color=FAINT, linestyle=(0, (6, 3)), linewidth=1.2)
    axes.set_xticks(counts, [str(count) for count in counts])
    figure.legend(loc="outside upper left", ncols=3, handlelength=2.6)
