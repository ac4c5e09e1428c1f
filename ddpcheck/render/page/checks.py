"""The checks by stage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from ddpcheck.render.folding import Line, lines_of
from ddpcheck.render.table import stages_of
from ddpcheck.report import CheckOutcome, Report

SIGNS = {"pass": "✓", "skip": "-", "fail": "!", "error": "✗"}
WORST_FIRST = (CheckOutcome.ERROR, CheckOutcome.FAIL, CheckOutcome.PASS, CheckOutcome.SKIP)


class StageChecks(NamedTuple):
    """The checks of a stage, and how many had which outcome."""

    stage: str
    lines: Sequence[Line]
    counts: Sequence[tuple[str, int]]
    is_calm: bool


def checks_of(report: Report) -> list[StageChecks]:
    """Return the stages in the order of the run, and in each the worst checks first."""
    found: list[StageChecks] = []
    for stage in stages_of(report):
        checks = [check for check in report.checks if check.stage == stage]
        counts = Counter(check.outcome for check in checks)
        told = [(each.value, counts[each]) for each in WORST_FIRST if counts[each]]
        is_calm = not counts[CheckOutcome.ERROR] and not counts[CheckOutcome.FAIL]
        lines = sorted(lines_of(checks), key=lambda line: WORST_FIRST.index(line.outcome))
        found.append(StageChecks(stage, lines, told, is_calm))
    return found
