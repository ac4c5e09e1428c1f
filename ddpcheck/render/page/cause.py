"""What stands first on the page: the cause of the verdict."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from ddpcheck.finding import Finding, Severity
from ddpcheck.measures.words import counted, known_as
from ddpcheck.render.comparison import worse_sentences
from ddpcheck.render.gone import Gone, chief_finding, gone_ranks
from ddpcheck.render.words import detail, host_of, where, worst_first
from ddpcheck.report import CheckOutcome, CheckRecord, Report, Verdict


class Cause(NamedTuple):
    """The cause in a few texts.

    ``anchor`` is where on the page more of it stands, and ``link`` what that is called. ``ranks`` are the guilty ones; ``stage`` is where they are guilty, '' where that is not known.
    """

    title: str
    who: str = ""
    message: str = ""
    fix: str = ""
    anchor: str = ""
    link: str = "Stack and reason"
    more: str = ""
    ranks: Collection[int] = ()
    stage: str = ""


def cause_of(report: Report) -> Cause:
    """Return why the verdict is what it is: the worst finding, who is gone, or what raised."""
    if first := chief_finding(report):
        return _of_finding(first, report)
    if gone := gone_ranks(report):
        return _of_gone(gone, report)
    raised = [each for each in report.checks if each.outcome is CheckOutcome.ERROR]
    if raised:
        return _of_raised(raised)
    if report.changes and (worse := worse_sentences(report.changes)):
        title = "No fault was found, but the run is worse than its baseline"
        return Cause(title, message=worse[0], anchor="baseline", link="What changed")
    return _of_nothing(report)


def _of_finding(first: Finding, report: Report) -> Cause:
    known = [each for each in worst_first(report.findings) if each.severity is not Severity.INFO]
    place, others = known.index(first), len(known) - 1
    stages = {check.id: check.stage for check in report.checks}
    return Cause(
        title=first.title,
        who=where(first.ranks, host_of(report)),
        message=first.message,
        fix=first.fix,
        anchor=f"finding-{place + 1}",
        link="Evidence and more of this finding",
        more=f"and {counted(others, 'further finding')}" if others else "",
        ranks=frozenset(first.ranks),
        stage=stages.get(first.id, ""),
    )


def _of_gone(gone: Sequence[Gone], report: Report) -> Cause:
    first = gone[0]
    others = sum(len(each.ranks) for each in gone[1:])
    last = f" in {known_as(first.check)}" if first.check else ""
    return Cause(
        title=f"{counted(len(first.ranks), 'rank')} {first.outcome.value}{last}",
        who=where(first.ranks, host_of(report)),
        message=first.reason,
        anchor="gone",
        more=f"and {counted(others, 'more rank')}" if others else "",
        ranks=frozenset(first.ranks),
    )


def _of_raised(raised: Sequence[CheckRecord]) -> Cause:
    first = raised[0]
    return Cause(
        title=f"{first.id} raised an error of its own",
        message=detail(first),
        anchor="gone",
        more=f"and {counted(len(raised) - 1, 'more check')}" if raised[1:] else "",
        stage=first.stage,
    )


def _of_nothing(report: Report) -> Cause:
    outcomes = [check.outcome for check in report.checks]
    passed, skipped = outcomes.count(CheckOutcome.PASS), outcomes.count(CheckOutcome.SKIP)
    is_clean = report.verdict in (Verdict.PASS, Verdict.WARN)
    title = "No fault was found" if is_clean else "The run did not come to its end"
    message = f"{counted(passed, 'check')} passed, {skipped} skipped: a skip is no pass."
    return Cause(title, message=message, anchor="checks", link="What was checked")
