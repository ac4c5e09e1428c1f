"""The ranks that did not come through, those with the same story told once."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from ddpcheck.finding import Finding, Severity
from ddpcheck.render.words import worst_first
from ddpcheck.report import RankOutcome, RankRecord, Report


class Gone(NamedTuple):
    """Ranks that stalled, or were lost, in the same way."""

    outcome: RankOutcome
    reason: str
    check: str
    stack: str
    ranks: Sequence[int]


def gone_ranks(report: Report) -> list[Gone]:
    """Return the stalled ranks, which have a stack to show, and then the lost ones."""
    stories: dict[tuple[str, ...], list[RankRecord]] = {}
    for record in report.ranks:
        if record.outcome.is_gone:
            stories.setdefault(_story(record), []).append(record)
    gone = [_gone(records) for records in stories.values()]
    return sorted(gone, key=lambda each: each.outcome is RankOutcome.LOST)


def _story(record: RankRecord) -> tuple[str, ...]:
    check, stack = _last(record)
    # Thread ids and addresses differ from rank to rank where the story does not.
    return (record.outcome, record.reason, check, re.sub(r"0x[0-9a-f]+", "0x", stack))


def _gone(records: Sequence[RankRecord]) -> Gone:
    first = records[0]
    ranks = tuple(record.rank for record in records)
    return Gone(first.outcome, first.reason, *_last(first), ranks)


def _last(record: RankRecord) -> tuple[str, str]:
    return (record.last_seen.check, record.last_seen.stack) if record.last_seen else ("", "")


def chief_finding(report: Report) -> Finding | None:
    """Return the finding that the verdict comes from, None where it is only information.

    Where ranks are gone that is one that names them, and not any worse one of others.
    """
    known = [each for each in worst_first(report.findings) if each.severity is not Severity.INFO]
    gone = {rank for each in gone_ranks(report) for rank in each.ranks}
    of_those = (each for each in known if gone & set(each.ranks))
    return next(of_those, known[0] if known else None)
