"""Who and what did not come through: ranks that are gone or failed, and checks that raised."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ddpcheck.measures.words import known_as
from ddpcheck.render.gone import gone_ranks
from ddpcheck.render.words import host_of, where
from ddpcheck.report import CheckOutcome, RankOutcome, Report


class Absent(NamedTuple):
    """Ranks with one story, or a check that raised; ``detail`` is a stack or a traceback."""

    outcome: str
    who: str
    reason: str
    last: str
    detail: str


def absent_of(report: Report) -> list[Absent]:
    """Return the ranks that are gone, then those that failed, then the checks that raised."""
    return [*_gone(report), *_failed(report), *_raised(report)]


def _gone(report: Report) -> Iterator[Absent]:
    hosts = host_of(report)
    for each in gone_ranks(report):
        last = f"last seen in {known_as(each.check)}" if each.check else ""
        yield Absent(each.outcome.value, where(each.ranks, hosts), each.reason, last, each.stack)


def _failed(report: Report) -> Iterator[Absent]:
    hosts = host_of(report)
    ranks_of: dict[str, list[int]] = {}
    for record in report.ranks:
        if record.outcome is RankOutcome.FAILED and not _is_told(record.reason, report):
            ranks_of.setdefault(record.reason, []).append(record.rank)
    for reason, ranks in ranks_of.items():
        first, detail = _split(reason)
        yield Absent("failed", where(ranks, hosts), first, "", detail)


def _is_told(reason: str, report: Report) -> bool:
    """Return whether a finding tells of it already."""
    return any(reason == f"{each.id}: {each.title}" for each in report.findings)


def _raised(report: Report) -> Iterator[Absent]:
    for check in report.checks:
        if check.outcome is CheckOutcome.ERROR:
            first, detail = _split(check.reason)
            yield Absent("raised", check.id, first, "", detail)


def _split(reason: str) -> Sequence[str]:
    first, _, rest = reason.partition("\n")
    return first, rest
