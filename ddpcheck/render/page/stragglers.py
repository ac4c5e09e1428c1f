"""Who is late: what each rank's compute takes, and how long the others wait for it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ddpcheck.measures.lateness import Turns, late_by_s
from ddpcheck.render.measured import are_sane, are_sane_or_zero, measured
from ddpcheck.render.page.drawing import ALARM, FAINT, SERIES, Numbers, Plot, bar_width, drawn
from ddpcheck.report import Report

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TURNS = "collectives/late-rank"
# More bars are too thin to be seen: neighbours share one then, as high as the worst of them.
MOST_BARS = 64
# One rank is late for nobody.
FEWEST = 2
MOST_ROWS = 24
MS = 1e3


class _Took(msgspec.Struct, frozen=True):
    """Seconds of a rank's turns; ``compute_s`` is what earlier versions told of each turn."""

    wait_s: tuple[float, ...]
    pace_s: tuple[float, ...] = ()
    compute_s: tuple[float, ...] = ()


class _Late(msgspec.Struct, frozen=True):
    turns: _Took


class Lateness(NamedTuple):
    """Seconds: the median of a rank's compute, and what all others waited for it altogether."""

    compute_s: float
    waited_s: float


def stragglers_plot(report: Report) -> Plot | None:
    """Return who was late in the turns of compute and a collective, None where none were taken."""
    late = _late(report)
    if len(late) < FEWEST:
        return None
    worst = max(late, key=lambda rank: late[rank].waited_s)
    slowest = max(late, key=lambda rank: late[rank].compute_s)
    caption = (
        f"The same compute takes longest on rank {slowest}: {MS * late[slowest].compute_s:.3g} ms, "
        f"{MS * median(each.compute_s for each in late.values()):.3g} in the median. "
        f"The others waited {MS * late[worst].waited_s:.3g} ms for rank {worst}, the most."
    )
    if len(late) > MOST_BARS:
        caption += f" A bar is the worst of {_width(late)} neighbours."
    alternative = f"Compute time, and time waited for, of {len(late)} ranks"
    named = {rank for each in report.findings if each.id == TURNS for rank in each.ranks}
    svg = drawn("stragglers", alternative, lambda figure: _paint(figure, late, named))
    return Plot("Stragglers", caption, svg, _numbers(late))


def _late(report: Report) -> dict[int, Lateness]:
    turns: dict[int, Turns] = {}
    for rank, own in measured(report, TURNS, _Late).items():
        pace_s = own.turns.pace_s or own.turns.compute_s
        if pace_s and are_sane(*pace_s) and are_sane_or_zero(*own.turns.wait_s):
            turns[rank] = Turns(pace_s, 0.0, own.turns.wait_s)
    waited_s = late_by_s(turns)
    return {rank: Lateness(median(own.pace_s), waited_s[rank]) for rank, own in turns.items()}


def _width(late: Mapping[int, Lateness]) -> int:
    return -(-len(late) // MOST_BARS)


def _paint(figure: Figure, late: Mapping[int, Lateness], named: Collection[int]) -> None:
    above, below = figure.subplots(2, 1, sharex=True)
    ranks, width = list(late), _width(late)
    bars = [ranks[start : start + width] for start in range(0, len(ranks), width)]
    colours = [ALARM if set(bar) & set(named) else SERIES[0] for bar in bars]
    compute_ms = [MS * max(late[rank].compute_s for rank in bar) for bar in bars]
    waited_ms = [MS * max(late[rank].waited_s for rank in bar) for bar in bars]
    _bars(above, compute_ms, colours, "compute, ms")
    middle = MS * median(each.compute_s for each in late.values())
    above.axhline(middle, color=FAINT, linestyle="--", linewidth=1)
    _bars(below, waited_ms, colours, "waited for, ms")
    shown = range(0, len(bars), max(1, len(bars) // 8))
    below.set_xticks(shown, [str(bars[place][0]) for place in shown])
    below.set_xlabel("rank")


def _bars(axes: Axes, heights: Sequence[float], colours: Sequence[str], what: str) -> None:
    axes.grid(visible=True, axis="y", linewidth=0.6)
    axes.bar(range(len(heights)), heights, width=bar_width(len(heights)), color=colours)
    axes.set_ylabel(what)


def _numbers(late: Mapping[int, Lateness]) -> Numbers:
    ranks = sorted(late, key=lambda rank: -late[rank].waited_s)[:MOST_ROWS]
    rows = [
        (str(rank), f"{MS * late[rank].compute_s:.3g}", f"{MS * late[rank].waited_s:.3g}")
        for rank in ranks
    ]
    return Numbers(("rank", "compute, ms", "waited for, ms"), rows)
