"""A figure by matplotlib as SVG inside a page, in the page's own colours, light or dark."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from ddpcheck.render.words import clipped, one_line

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Matplotlib needs colours, the page has names for them, with a value for light and one for dark:
# each of these, which nothing else has, is replaced by its name.
INK, FAINT, GRID = "#010101", "#020202", "#030303"
SERIES = ("#040401", "#040402", "#040403", "#040404", "#040405", "#040406")
ALARM = "#050505"
CSS_NAMES = {
    INK: "var(--ink)",
    FAINT: "var(--faint)",
    GRID: "var(--rule)",
    ALARM: "var(--error)",
    **{colour: f"var(--series-{place})" for place, colour in enumerate(SERIES, 1)},
}
# What tells series apart where colours do not.
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P")
# One point is one CSS pixel: at a phone's width the text is still 10 pixels high.
WIDTH, HEIGHT, DPI = 360, 280, 72
LONGEST_LABEL = 40
# Few bars would be as wide as the plot.
FEW_BARS, WIDE_BAR, NARROW_BAR = 4, 0.8, 0.4


class Numbers(NamedTuple):
    """What a plot shows, as a table."""

    headers: Sequence[str]
    rows: Sequence[Sequence[str]]


class Plot(NamedTuple):
    """A plot with what it says in words, and its numbers."""

    title: str
    caption: str
    svg: str
    numbers: Numbers


def label(text: str) -> str:
    """Return a text from elsewhere as a plot can hold it: short, and in characters all fonts have."""
    start = one_line(text[: 2 * LONGEST_LABEL])
    return clipped(start.encode("ascii", "backslashreplace").decode(), LONGEST_LABEL)


def bar_width(count: int) -> float:
    """Return how much of its place each of ``count`` bars takes."""
    return NARROW_BAR if count <= FEW_BARS else WIDE_BAR


def drawn(name: str, alternative: str, paint: Callable[[Figure], None]) -> str:
    """Return what ``paint`` draws as an ``<svg>`` element; the same figure gives the same text.

    ``name`` is unlike that of all other figures of a page, ``alternative`` is read out to those
    who do not see it.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    text = io.StringIO()
    with mpl.rc_context():
        # What is set in the user's matplotlibrc is for other figures.
        mpl.rcdefaults()
        mpl.rcParams.update(_settings(name))
        figure = Figure(figsize=(WIDTH / DPI, HEIGHT / DPI), dpi=DPI, layout="constrained")
        paint(figure)
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    return _embedded(text.getvalue(), alternative)


def _settings(name: str) -> dict[Any, Any]:
    return {
        "svg.hashsalt": f"ddpcheck {name}",
        # Text stays text: smaller, and it can be selected and read out.
        "svg.fonttype": "none",
        # A dollar in a name is no formula.
        "text.parse_math": False,
        "font.family": ["DejaVu Sans"],
        "font.size": 11,
        "legend.fontsize": 10,
        "legend.frameon": False,
        "text.color": INK,
        "axes.edgecolor": FAINT,
        "axes.labelcolor": INK,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.axisbelow": True,
        "xtick.color": FAINT,
        "ytick.color": FAINT,
        "xtick.labelcolor": INK,
        "ytick.labelcolor": INK,
        "grid.color": GRID,
    }


def _embedded(svg: str, alternative: str) -> str:
    inner = re.sub(r"^.*?<defs>\s*<style.*?</style>\s*</defs>", "", svg, flags=re.DOTALL)
    # The page has several figures, and ids have to differ: what nobody refers to needs none.
    referred = set(re.findall(r"(?:url\(#|href=\"#)([^)\"]+)", inner))
    inner = re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in referred else "", inner)
    inner = re.sub(r" ?font-family: [^;\"]*;", "", inner)
    inner = re.sub(r"<[^>]*>", lambda tag: re.sub(r"(\.\d\d)\d+", r"\1", tag[0]), inner)
    inner = re.sub(r"\s*\n\s*", " ", inner).replace("> <", "><")
    inner = re.sub("|".join(CSS_NAMES), lambda found: CSS_NAMES[found[0]], inner)
    head = f'viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(alternative)}"'
    return f'<svg class="plot" {head}>{inner.strip()}'
