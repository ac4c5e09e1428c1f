"""What changed against the baseline, as the page shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ddpcheck.change import Course
from ddpcheck.render.comparison import result_line, sentence
from ddpcheck.report import Report

SIGNS = {Course.WORSE: "✗", Course.CHANGED: "~", Course.BETTER: "✓"}


class Changed(NamedTuple):
    """One change: its course with a sign, and the change in words."""

    sign: str
    course: str
    told: str


class Compared(NamedTuple):
    """The result in a line, the changes, and what was not compared."""

    before: str
    result: str
    changes: Sequence[Changed]
    left_out: Sequence[str]


def compared_of(report: Report) -> Compared | None:
    """Return what changed against the baseline; None where there was none."""
    if not report.changes:
        return None
    changes = [
        Changed(SIGNS[each.course], each.course.value, sentence(each))
        for each in report.changes.changes
    ]
    told = report.changes
    return Compared(told.before, result_line(told), changes, told.left_out)
