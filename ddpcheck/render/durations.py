"""What a run spent its seconds on: by stage, by check, and what of it lies outside of checks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ddpcheck.measures.words import counted
from ddpcheck.render.words import one_line
from ddpcheck.report import JUDGED_ALWAYS, CheckOutcome, CheckRecord, Report

MOST_CHECKS = 20
# Above it, hundredths say nothing, and a number that cannot be a duration would not fit its column.
HUNDREDTHS_BELOW_S = 100_000
# A run's own clock starts when its rank has torch: what comes before is none of duration_s.
OUTSIDE = "meeting, joining the group, training the target, waiting for each other, judging"


def duration_lines(report: Report) -> list[str]:
    """Return the lines on durations in wall seconds, each check's being its slowest rank's.

    The slowest rank need not be the same in each check, so their sum may be more than the run took.
    """
    ran = [each for each in report.checks if _has_measured(each)]
    return [
        _headline(report),
        *_by_stage(ran),
        _line(max(0.0, report.run.duration_s - _sum_s(ran)), f"outside of checks: {OUTSIDE}"),
        "slowest checks",
        *_by_check(ran),
    ]


def _headline(report: Report) -> str:
    profile = f"profile {one_line(report.run.profile)}, " if report.run.profile else ""
    return f"durations: {profile}{_seconds(report.run.duration_s)} in all; of a check, its slowest rank's"


def _by_stage(ran: Sequence[CheckRecord]) -> Iterator[str]:
    stages = {stage: [e for e in ran if e.stage == stage] for stage in (e.stage for e in ran)}
    for stage, own in sorted(stages.items(), key=lambda item: -_sum_s(item[1])):
        yield _line(_sum_s(own), f"{stage}, {counted(len(own), 'check')}")


def _by_check(ran: Sequence[CheckRecord]) -> Iterator[str]:
    slowest_first = sorted(ran, key=lambda each: -each.duration_s)
    shown, left = slowest_first[:MOST_CHECKS], slowest_first[MOST_CHECKS:]
    yield from (_line(each.duration_s, each.id) for each in shown)
    if left:
        yield _line(_sum_s(left), f"{counted(len(left), 'faster check')} together")


def _has_measured(check: CheckRecord) -> bool:
    return check.outcome is not CheckOutcome.SKIP and check.stage != JUDGED_ALWAYS


def _sum_s(checks: Sequence[CheckRecord]) -> float:
    return sum(each.duration_s for each in checks)


def _line(duration_s: float, what: str) -> str:
    return f"{_seconds(duration_s):>10}  {one_line(what)}"


def _seconds(duration_s: float) -> str:
    exact = duration_s < HUNDREDTHS_BELOW_S
    return f"{duration_s:.2f} s" if exact else f"{duration_s:.3g} s"
