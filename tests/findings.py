"""Findings as users read them, with the id of their check."""

from collections.abc import Mapping

import msgspec

from ddpcheck.catalogue import check_named
from ddpcheck.finding import Finding, Severity
from ddpcheck.report import Report


def judged(check: str, facts: Mapping[int, msgspec.Struct]) -> list[Finding]:
    """Return what the check finds in these facts, each finding with its id."""
    return check_named(check).judge(facts)


def only(report: Report, check: str) -> Finding:
    """Return the one finding above info, which is this check's."""
    (finding,) = [each for each in report.findings if each.severity is not Severity.INFO]
    assert finding.id == check
    return finding


def of(report: Report, check: str) -> Finding:
    """Return the one finding of this check."""
    (finding,) = [each for each in report.findings if each.id == check]
    return finding


def outcome(report: Report, check: str) -> tuple[str, str]:
    """Return the outcome of a check, and its reason."""
    (told,) = [each for each in report.checks if each.id == check]
    return told.outcome.value, told.reason or ""
