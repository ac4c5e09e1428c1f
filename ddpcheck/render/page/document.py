"""The page as a whole: what its templates are given, and within which bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ddpcheck import __version__
from ddpcheck.measures.words import counted
from ddpcheck.render.configuration import configuration_lines
from ddpcheck.render.page.absent import absent_of
from ddpcheck.render.page.bandwidth import bandwidth_plot
from ddpcheck.render.page.cause import cause_of
from ddpcheck.render.page.checks import SIGNS, checks_of
from ddpcheck.render.page.compared import compared_of
from ddpcheck.render.page.differences import differences
from ddpcheck.render.page.findings import findings_of
from ddpcheck.render.page.grid import grid_of
from ddpcheck.render.page.losses import loss_plot
from ddpcheck.render.page.scaling import scaling_plot
from ddpcheck.render.page.steps import steps_plot
from ddpcheck.render.page.stragglers import stragglers_plot
from ddpcheck.render.page.trainings import (
    lines_of,
    parity_notes,
    parity_table,
    scaling_advice,
    scaling_table,
)
from ddpcheck.render.words import (
    CUT,
    clipped,
    headline,
    one_line,
    printable,
    scalar,
    seconds,
    verdict_line,
)
from ddpcheck.report import Report

# No text of a report is longer on the page, whatever a template does with it.
LONGEST_BLOCK, LONGEST_LINE, LONGEST_CELL = 8_000, 1_200, 240
# Bytes of what a section repeats: together with the plots they are less than a megabyte.
LIMITS = {
    "findings": 220_000,
    "ranks": 120_000,
    "absent": 80_000,
    "differences": 50_000,
    "checks": 120_000,
    "compared": 40_000,
    "settings": 20_000,
    "table": 16_000,
}
VERDICT_SIGNS = {"pass": "✓", "warn": "!", "fail": "✗", "incomplete": "■"}


class Kept(NamedTuple):
    """What fits, and in words what does not."""

    html: Markup
    left: str


def document(report: Report, path: str) -> str:
    """Return the page for a report that lies at ``path``."""
    cause = cause_of(report)
    training = report.training or {}
    plots = (bandwidth_plot(report), steps_plot(report), stragglers_plot(report))
    page = environment().get_template("page.html", globals=_given())
    return page.render(
        report=report,
        path=path,
        cause=cause,
        grid=grid_of(report, cause),
        findings=findings_of(report),
        absent=absent_of(report),
        plots=[plot for plot in plots if plot],
        training=training,
        training_lines=lines_of(training),
        curves=[plot for plot in (loss_plot(training), scaling_plot(training)) if plot],
        parity=parity_table(training),
        parity_notes=parity_notes(training),
        scaling=scaling_table(training),
        advice=scaling_advice(training),
        differences=differences(report),
        stages=checks_of(report),
        compared=compared_of(report),
        settings=configuration_lines(report),
    )


@cache
def environment() -> Environment:
    """Return the templates' environment: every value is escaped, made visible, and cut."""
    made = Environment(
        loader=PackageLoader("ddpcheck.render.page"),
        autoescape=True,
        finalize=_finalized,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= _filters()
    return made


def _filters() -> dict[str, Callable[..., str]]:
    """Return what templates put values into words with."""
    return {
        "line": _line,
        "cell": _cell,
        "setting": scalar,
        "seconds": seconds,
        "counted": counted,
    }


def _given() -> dict[str, Any]:
    """Return what all templates may use."""
    return {
        "headline": headline,
        "verdict_line": verdict_line,
        "version": __version__,
        "within": within,
        "limits": LIMITS,
        "verdict_signs": VERDICT_SIGNS,
        "check_signs": SIGNS,
    }


def within(shown: Callable[[Any], Markup], items: Iterable[Any], most: int, noun: str) -> Kept:
    """Return what a macro makes of the first items, in at most so many bytes.

    What is left is told as how many more of ``noun`` are in report.json.
    """
    listed = list(items)
    parts: list[Markup] = []
    for item in listed:
        part = shown(item)
        most -= len(part.encode())
        if most < 0:
            break
        parts.append(part)
    left = len(listed) - len(parts)
    told = f"… and {counted(left, f'more {noun}')} in report.json" if left else ""
    return Kept(Markup("").join(parts), told)


def _line(text: Any) -> str:
    return clipped(one_line(str(text)[: 2 * LONGEST_LINE]), LONGEST_LINE)


def _cell(text: Any) -> str:
    return clipped(one_line(str(text)[: 2 * LONGEST_CELL]), LONGEST_CELL)


def _finalized(value: Any) -> Any:
    """Return a value with what a page cannot hold, or would hide, as escapes; markup as it is."""
    if isinstance(value, Markup):
        return value
    text = str(value)
    # Escapes are longer than what they stand for.
    shown = "\n".join(map(printable, text[:LONGEST_BLOCK].split("\n")))
    return clipped(shown if len(text) <= LONGEST_BLOCK else f"{shown}\n{CUT}", LONGEST_BLOCK)
