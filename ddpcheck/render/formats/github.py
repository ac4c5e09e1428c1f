"""Workflow commands of GitHub Actions: findings as annotations, the worst first.

Print them in a step of a workflow; GitHub puts those that have a file beside its lines. See "Workflow
commands for GitHub Actions" in its documentation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ddpcheck.finding import Finding, Location, Severity
from ddpcheck.measures.words import counted
from ddpcheck.render.comparison import result_line, worse_sentences
from ddpcheck.render.places import in_workspace
from ddpcheck.render.words import (
    clipped,
    detail,
    host_of,
    one_line,
    statement,
    verdict_line,
    worst_first,
)
from ddpcheck.report import CheckOutcome, CheckRecord, Report, Verdict

KINDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}
# GitHub shows no more of a kind in one step.
MOST_OF_A_KIND = 10
LONGEST_TITLE = 250


class Annotation(NamedTuple):
    """One workflow command, nothing of it escaped yet."""

    kind: str
    title: str
    message: str
    location: Location | None = None


def render(report: Report, path: str = "") -> str:
    """Return one line an annotation: at most 10 errors, 10 warnings and 10 notices.

    The last one of a kind says how many there are more. There is always one with the verdict.
    """
    annotations = list(_annotations(report, path))
    lines = [
        _command(each)
        for kind in KINDS.values()
        for each in _shown([one for one in annotations if one.kind == kind])
    ]
    return "".join(f"{line}\n" for line in lines)


def _annotations(report: Report, path: str) -> Iterator[Annotation]:
    hosts = host_of(report)
    incomplete = report.verdict is Verdict.INCOMPLETE
    place = f"\nreport: {one_line(path)}" if path else ""
    yield Annotation("error" if incomplete else "notice", "ddpcheck", verdict_line(report) + place)
    if report.changes and report.changes.is_worse:
        told = [*worse_sentences(report.changes), result_line(report.changes)]
        yield Annotation("error", "ddpcheck: worse than the baseline", "\n".join(told))
    yield from (_of_finding(finding, hosts) for finding in worst_first(report.findings))
    yield from (_of_broken(each) for each in report.checks if each.outcome is CheckOutcome.ERROR)


def _of_finding(finding: Finding, hosts: Mapping[int, str]) -> Annotation:
    title = f"{finding.id}: {clipped(finding.title, LONGEST_TITLE)}"
    return Annotation(KINDS[finding.severity], title, statement(finding, hosts), finding.location)


def _of_broken(check: CheckRecord) -> Annotation:
    return Annotation("error", f"{check.id}: the check itself failed", detail(check))


def _shown(annotations: Sequence[Annotation]) -> Iterator[Annotation]:
    left = len(annotations) - MOST_OF_A_KIND
    if left <= 0:
        yield from annotations
        return
    yield from annotations[: MOST_OF_A_KIND - 1]
    kind = annotations[0].kind
    yield Annotation(kind, "ddpcheck", f"and {counted(left + 1, f'more {kind}')} in report.json")


def _command(annotation: Annotation) -> str:
    properties = {"title": clipped(one_line(annotation.title), LONGEST_TITLE)}
    if annotation.location:
        file = clipped(in_workspace(annotation.location.file), LONGEST_TITLE)
        line = max(1, annotation.location.line)
        properties = {"file": one_line(file), "line": str(line), **properties}
    told = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{annotation.kind} {told}::{_data(annotation.message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
