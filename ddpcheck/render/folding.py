"""Which checks share a line: many that only have one thing to say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ddpcheck.render.words import detail
from ddpcheck.report import CheckOutcome, CheckRecord

# Fewer are better named each.
FEWEST = 3


@dataclass(frozen=True)
class Line:
    """One line on checks of one outcome; ``duration_s`` is None where nothing ran."""

    outcome: CheckOutcome
    name: str
    duration_s: float | None
    detail: str


def lines_of(checks: Sequence[CheckRecord]) -> Iterator[Line]:
    """Yield a line for each check, or for several of a stage that were skipped for one reason.

    Those that passed and measured nothing worth a word share one as well.
    """
    same: dict[tuple[str, str, str], list[CheckRecord]] = {}
    for check in checks:
        same.setdefault(_sameness(check), []).append(check)
    for check in checks:
        alike = same[_sameness(check)]
        if len(alike) < FEWEST or not _is_dull(check):
            yield _line(check)
        elif alike[0] is check:
            yield _shared(alike)


def _sameness(check: CheckRecord) -> tuple[str, str, str]:
    return check.stage, check.outcome.value, detail(check)


def _is_dull(check: CheckRecord) -> bool:
    passed = check.outcome is CheckOutcome.PASS and not detail(check)
    return passed or check.outcome is CheckOutcome.SKIP


def _line(check: CheckRecord) -> Line:
    skipped = check.outcome is CheckOutcome.SKIP
    return Line(check.outcome, check.id, None if skipped else check.duration_s, detail(check))


def _shared(alike: Sequence[CheckRecord]) -> Line:
    first = _line(alike[0])
    took_s = None if first.duration_s is None else sum(each.duration_s for each in alike)
    return Line(first.outcome, f"{len(alike)} {alike[0].stage} checks", took_s, first.detail)
