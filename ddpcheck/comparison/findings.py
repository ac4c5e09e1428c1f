"""Findings that are new or gone, and checks that ended in another way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from ddpcheck.change import Change, Course, Part
from ddpcheck.comparison.both import Both, Told
from ddpcheck.finding import Finding, Severity
from ddpcheck.measures.words import counted, listed, ranks_told
from ddpcheck.report import CheckOutcome, CheckRecord, Report

BAD = (CheckOutcome.FAIL, CheckOutcome.ERROR)


class Known(NamedTuple):
    """What makes two findings the same: the check, the ranks that have it, and the place."""

    id: str
    ranks: tuple[int, ...]
    place: str


def finding_changes(both: Both) -> Told:
    """Return the findings that are new, gone, or weigh more or less than they did.

    The same is what has the same id, ranks and place; its words, which hold measured values, may
    differ. What is suppressed in one report is neither new nor gone in the other.
    """
    old, new = _by_key(both.old.findings), _by_key(both.new.findings)
    were, are = _reasons(both.old), _reasons(both.new)
    gone = [each for key in old for each in old[key][len(new.get(key, ())) :]]
    come = [each for key in new for each in new[key][len(old.get(key, ())) :]]
    ran, runs = _ran(both.old), _ran(both.new)
    return Told(
        [
            *(_come(e, _note(e, gone, ran)) for e in come if _key(e) not in were),
            *(_shown_again(e) for e in come if _key(e) in were),
            *(_gone(e, runs) for e in gone if _key(e) not in are),
            *(_hidden(e, are[_key(e)]) for e in gone if _key(e) in are),
            *_reweighed(old, new),
        ]
    )


def check_changes(both: Both) -> Told:
    """Return the checks that are only in one report, and those that ended in another way.

    What a finding of the same check tells already is left out.
    """
    old, new = _checks(both.old), _checks(both.new)
    told = {change.what for change in finding_changes(both).changes}
    changed = [
        (old[each], new[each])
        for each in new
        if each in old
        and old[each].outcome is not new[each].outcome
        and (each not in told or CheckOutcome.ERROR in (old[each].outcome, new[each].outcome))
    ]
    return Told([*_only_in_one(old.keys(), new.keys()), *_outcomes(changed)])


def _by_key(findings: Iterable[Finding]) -> dict[Known, list[Finding]]:
    found: dict[Known, list[Finding]] = {}
    for each in findings:
        found.setdefault(_key(each), []).append(each)
    return found


def _key(finding: Finding) -> Known:
    return Known(finding.id, tuple(sorted(finding.ranks)), str(finding.location or ""))


def _reasons(report: Report) -> dict[Known, str]:
    """Return why findings are suppressed."""
    return {_key(each.finding): each.reason for each in report.suppressed}


def _shown_again(finding: Finding) -> Change:
    return _change(finding, "suppressed", _told(finding), Course.CHANGED)


def _hidden(finding: Finding, reason: str) -> Change:
    return _change(finding, _told(finding), f"suppressed: {reason}", Course.CHANGED)


def _come(finding: Finding, note: str) -> Change:
    course = Course.CHANGED if finding.severity is Severity.INFO else Course.WORSE
    return _change(finding, "", _told(finding), course, note)


def _gone(finding: Finding, runs: Collection[str]) -> Change:
    if finding.id not in runs:
        # Nobody looked: that is no better.
        return _change(finding, _told(finding), "", Course.CHANGED, "the check does not run now")
    course = Course.CHANGED if finding.severity is Severity.INFO else Course.BETTER
    return _change(finding, _told(finding), "", course)


def _ran(report: Report) -> set[str]:
    return {check.id for check in report.checks if check.outcome is not CheckOutcome.SKIP}


def _note(finding: Finding, gone: Iterable[Finding], ran: Collection[str]) -> str:
    if finding.id not in ran:
        return "the check did not run before"
    ranks = sorted({rank for each in gone if each.id == finding.id for rank in each.ranks})
    return f"before on {ranks_told(ranks)}" if ranks else ""


def _reweighed(
    old: dict[Known, list[Finding]], new: dict[Known, list[Finding]]
) -> Iterator[Change]:
    for key in (key for key in new if key in old):
        for before, now in zip(old[key], new[key], strict=False):
            if before.severity is not now.severity:
                worse = now.severity.weight > before.severity.weight
                course = Course.WORSE if worse else Course.BETTER
                yield _change(now, _told(before), _told(now), course)


def _change(finding: Finding, before: str, now: str, course: Course, note: str = "") -> Change:
    return Change(
        part=Part.FINDINGS,
        what=finding.id,
        before=before,
        now=now,
        course=course,
        ranks=sorted(finding.ranks),
        note=note,
    )


def _told(finding: Finding) -> str:
    at = f" at {finding.location}" if finding.location else ""
    return f"{finding.severity.value}: {finding.title}{at}"


def _checks(report: Report) -> dict[str, CheckRecord]:
    return {check.id: check for check in report.checks}


def _only_in_one(old: Iterable[str], new: Iterable[str]) -> Iterator[Change]:
    added, removed = sorted(set(new) - set(old)), sorted(set(old) - set(new))
    if removed:
        yield Change(
            part=Part.CHECKS,
            what=f"{counted(len(removed), 'check')} less",
            before=listed(removed),
            now="",
        )
    if added:
        yield Change(
            part=Part.CHECKS,
            what=f"{counted(len(added), 'check')} more",
            before="",
            now=listed(added),
        )


def _outcomes(changed: Iterable[tuple[CheckRecord, CheckRecord]]) -> Iterator[Change]:
    """Yield a line for each way in which outcomes changed: a stage that is left out has many."""
    pairs = list(changed)
    ways = Counter((before.outcome, now.outcome) for before, now in pairs)
    for before, now in ways:
        those = [new for old, new in pairs if (old.outcome, new.outcome) == (before, now)]
        reasons = dict.fromkeys(each.reason.partition("\n")[0] for each in those if each.reason)
        yield Change(
            part=Part.CHECKS,
            what=listed(each.id for each in those),
            before=before.value,
            now=now.value,
            course=_course(before, now),
            note=listed(reasons, "; ") if now is CheckOutcome.SKIP or now in BAD else "",
        )


def _course(before: CheckOutcome, now: CheckOutcome) -> Course:
    if now in BAD:
        return Course.WORSE
    return Course.BETTER if before in BAD and now is CheckOutcome.PASS else Course.CHANGED
