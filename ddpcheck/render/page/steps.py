"""Where each rank's step goes, as bars of its parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, median_low
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ddpcheck.measures.blocks import Block
from ddpcheck.render.measured import are_sane, are_sane_or_zero, measured, step_splits
from ddpcheck.render.page.drawing import SERIES, Numbers, Plot, bar_width, drawn
from ddpcheck.report import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PACE = "performance/waits-for-one-rank"
# More bars are too thin to be told apart: then the extremes stand beside the rank in the middle.
MOST_BARS = 24
EXTREMES = 8
MS = 1e3


class _Pace(msgspec.Struct, frozen=True):
    blocks: tuple[Block, ...]


class Step(NamedTuple):
    """One rank's step: the seconds of its parts, by name, and of all of it."""

    parts_s: Mapping[str, float]
    step_s: float


def steps_plot(report: Report) -> Plot | None:
    """Return the parts of a step on each rank, None where no step was measured."""
    steps = _rehearsed(report) or _watched(report)
    if not steps:
        return None
    shown = chosen(steps)
    slowest = max(steps, key=lambda rank: steps[rank].step_s)
    alternative = (
        f"Parts of a training step on {len(shown)} ranks; the longest is {MS * steps[slowest].step_s:.3g} "
        f"ms, on rank {slowest}"
    )
    svg = drawn("steps", alternative, lambda figure: _paint(figure, shown))
    return Plot("Step time by rank", _caption(steps, shown), svg, _numbers(shown))


def chosen(steps: Mapping[int, Step]) -> dict[int, Step]:
    """Return the ranks to show by number: all, or the slowest, the fastest and the middle one."""
    if len(steps) <= MOST_BARS:
        return dict(sorted(steps.items()))
    ordered = sorted(steps, key=lambda rank: steps[rank].step_s)
    middle = ordered[(len(ordered) - 1) // 2]
    kept = {*ordered[:EXTREMES], middle, *ordered[-EXTREMES:]}
    return {rank: steps[rank] for rank in sorted(kept)}


def _rehearsed(report: Report) -> dict[int, Step]:
    return {
        rank: Step(
            {
                "data": own.data_s,
                "forward": own.forward_s,
                "backward": own.backward_s,
                "exposed comm": own.exposed_comm_s,
                "optimizer": own.optimizer_s,
            },
            own.step_s,
        )
        for rank, own in step_splits(report).items()
    }


def _watched(report: Report) -> dict[int, Step]:
    """Return the steps of a watched script, as means of its blocks of steps."""
    found: dict[int, Step] = {}
    for rank, own in measured(report, PACE, _Pace).items():
        blocks = [each for each in own.blocks if are_sane(each.step_s)]
        blocks = [each for each in blocks if are_sane_or_zero(each.loader_s, each.own_s)]
        if blocks:
            found[rank] = _mean(blocks)
    return found


def _mean(blocks: Sequence[Block]) -> Step:
    loader_s, own_s, step_s = (
        fmean(values)
        for values in zip(*((e.loader_s, e.own_s, e.step_s) for e in blocks), strict=True)
    )
    rest_s = max(0.0, step_s - loader_s - own_s)
    parts_s = {"loader": loader_s, "before the model": own_s, "model and communication": rest_s}
    return Step(parts_s, step_s)


def _caption(steps: Mapping[int, Step], shown: Mapping[int, Step]) -> str:
    times_s = [step.step_s for step in steps.values()]
    told = f"A step takes {MS * median_low(times_s):.3g} ms in the median of {len(steps)} ranks"
    told += f", and {MS * max(times_s):.3g} ms on the slowest."
    if len(shown) < len(steps):
        told += f" Shown are the {EXTREMES} slowest, the {EXTREMES} fastest and the middle one."
    return told


def _paint(figure: Figure, shown: Mapping[int, Step]) -> None:
    axes = figure.add_subplot(xlabel="ms of a step", ylabel="rank")
    axes.grid(visible=True, axis="x", linewidth=0.6)
    places = range(len(shown))
    left, height = [0.0] * len(shown), bar_width(len(shown))
    names = list(next(iter(shown.values())).parts_s)
    for name, colour in zip(names, SERIES, strict=False):
        widths = [MS * step.parts_s[name] for step in shown.values()]
        axes.barh(places, widths, left=left, height=height, color=colour, label=name)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axes.set_yticks(places, [str(rank) for rank in shown])
    axes.set_ylim(len(shown) - 0.4, -0.6)
    figure.legend(loc="outside upper left", ncols=3, handlelength=1)


def _numbers(shown: Mapping[int, Step]) -> Numbers:
    names = list(next(iter(shown.values())).parts_s)
    rows = [
        (
            str(rank),
            *(f"{MS * step.parts_s[name]:.3g}" for name in names),
            f"{MS * step.step_s:.3g}",
        )
        for rank, step in shown.items()
    ]
    return Numbers(("rank", *(f"{name}, ms" for name in names), "step, ms"), rows)
