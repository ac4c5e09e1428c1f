"""The loss curve of the reference training run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ddpcheck.render.measured import MOST, number, thinned
from ddpcheck.render.page.drawing import SERIES, Numbers, Plot, drawn

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_POINTS = 400
MOST_ROWS = 12
# A line needs two.
FEWEST = 2


class Point(NamedTuple):
    """The loss after a step."""

    step: float
    loss: float


def loss_plot(training: Mapping[str, Any]) -> Plot | None:
    """Return the loss over the steps, None where there is no curve."""
    points = _points(training.get("loss"))
    if len(points) < FEWEST:
        return None
    first, last = points[0], points[-1]
    told = f"from {first.loss:.4g} at step {first.step:g} to {last.loss:.4g} at step {last.step:g}"
    shown = thinned(points, MOST_POINTS)
    svg = drawn("loss", f"Training loss, {told}", lambda figure: _paint(figure, shown))
    rows = [(f"{each.step:g}", f"{each.loss:.4f}") for each in thinned(points, MOST_ROWS)]
    return Plot("Loss", f"The loss goes {told}.", svg, Numbers(("step", "loss"), rows))


def _points(curve: Any) -> list[Point]:
    points: list[Any] = curve if isinstance(curve, list) else []
    pairs = [each for each in points if isinstance(each, list) and len(each) == len(Point._fields)]
    found = [(number(step), number(loss)) for step, loss in pairs]
    return [
        Point(step, loss)
        for step, loss in found
        if step is not None and loss is not None and max(abs(step), abs(loss)) < MOST
    ]


def _paint(figure: Figure, points: list[Point]) -> None:
    axes = figure.add_subplot(xlabel="step", ylabel="loss")
    axes.grid(visible=True, linewidth=0.6)
    steps, losses = zip(*points, strict=True)
    axes.plot(steps, losses, color=SERIES[0], linewidth=1.6)
