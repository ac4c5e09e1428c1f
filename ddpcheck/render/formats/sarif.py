"""SARIF 2.1.0, as code scanning reads it: a result a finding, and the manual of its check as the rule.

Source: OASIS, Static Analysis Results Interchange Format (SARIF) Version 2.1.0. A finding with no
line of source lies in the report itself, where that has a path: GitHub refuses a file with a result
that lies nowhere. What a settings file suppresses is a result with its suppression; what became worse
than the baseline is a notification.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ddpcheck import __version__, jsontext
from ddpcheck.catalogue import catalogue
from ddpcheck.configuration import Suppressed
from ddpcheck.finding import Finding, Severity
from ddpcheck.render.comparison import worse_sentences
from ddpcheck.render.places import as_uri
from ddpcheck.render.words import (
    clipped,
    detail,
    host_of,
    one_line,
    several_lines,
    statement,
    verdict_line,
    worst_first,
)
from ddpcheck.report import CheckOutcome, CheckRecord, Report, Verdict

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
LONGEST_NAME = 250
LONGEST_FIX = 1_000
LONGEST_MANUAL = 20_000
# Places of ranks are for people: of more than these, the host names are enough.
MOST_RANKS = 64


def render(report: Report, path: str = "") -> str:
    """Return the report as SARIF, one run with a result for each finding.

    ``path`` is where the report lies. Files below the working directory have relative URIs.
    """
    rules = _rules(report)
    places = {rule["id"]: place for place, rule in enumerate(rules)}
    hosts = host_of(report)
    run = {
        "tool": {"driver": {"name": "ddpcheck", "version": _version(report), "rules": rules}},
        "invocations": [_invocation(report)],
        "columnKind": "unicodeCodePoints",
        "results": [
            *(
                _result(each, places[_name(each.id)], hosts, path)
                for each in worst_first(report.findings)
            ),
            *(
                _suppressed(each, places[_name(each.finding.id)], hosts, path)
                for each in report.suppressed
            ),
        ],
        "properties": {"runId": _name(report.run.id), "verdict": report.verdict.value},
    }
    return jsontext.indented({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}).decode()


def _version(report: Report) -> str:
    return _name(report.run.versions.get("ddpcheck", __version__))


def _rules(report: Report) -> list[dict[str, Any]]:
    """Return the rule of each check that found something; one that is not installed has a title."""
    hidden = [each.finding for each in report.suppressed]
    found = {each.id: each.title for each in worst_first([*report.findings, *hidden])}
    manuals = {check.id: check.manual for check in catalogue()} if found else {}
    titles = found | {each.id: each.title for each in report.checks if each.id in found}
    # What is clipped may become the same: a rule stands once.
    rules = {_name(name): _rule(name, title, manuals.get(name)) for name, title in titles.items()}
    return list(rules.values())


def _rule(name: str, title: str, manual: str | None) -> dict[str, Any]:
    rule: dict[str, Any] = {"id": _name(name), "shortDescription": {"text": _name(title)}}
    if manual:
        rule["help"] = {"text": several_lines(manual.strip(), LONGEST_MANUAL)}
    return rule


def _invocation(report: Report) -> dict[str, Any]:
    run = report.run
    complete = report.verdict is not Verdict.INCOMPLETE
    notes = [_notification(c) for c in report.checks if c.outcome is CheckOutcome.ERROR]
    if report.changes:
        notes += map(_worse, worse_sentences(report.changes))
    if not complete:
        notes.insert(0, {"level": "error", "message": {"text": verdict_line(report)}})
    return {
        "executionSuccessful": complete,
        "commandLine": one_line(clipped(run.command, LONGEST_NAME)),
        "toolExecutionNotifications": notes,
        "properties": {
            "startedAt": _name(run.started_at),
            "launcher": _name(run.launcher),
            "backend": _name(run.backend),
            "requestedWorldSize": run.requested_world_size,
            "worldSize": run.world_size,
        },
    }


def _notification(check: CheckRecord) -> dict[str, Any]:
    text = f"{_name(check.id)}: the check itself failed: {detail(check)}"
    return {"level": "error", "message": {"text": text}}


def _worse(told: str) -> dict[str, Any]:
    return {"level": "error", "message": {"text": f"worse than the baseline: {told}"}}


def _suppressed(
    suppressed: Suppressed, rule: int, hosts: Mapping[int, str], path: str
) -> dict[str, Any]:
    why = one_line(clipped(suppressed.reason, LONGEST_FIX))
    return {
        **_result(suppressed.finding, rule, hosts, path),
        "suppressions": [{"kind": "external", "status": "accepted", "justification": why}],
    }


def _result(finding: Finding, rule: int, hosts: Mapping[int, str], path: str) -> dict[str, Any]:
    named = list(dict.fromkeys(hosts[rank] for rank in finding.ranks if rank in hosts))
    return {
        "ruleId": _name(finding.id),
        "ruleIndex": rule,
        "level": LEVELS[finding.severity],
        "message": {"text": statement(finding, hosts)},
        "locations": _locations(finding, named, path),
        "properties": {
            "confidence": finding.confidence.value,
            "ranks": list(finding.ranks),
            "hosts": [_name(each) for each in named],
            "fix": one_line(clipped(finding.fix, LONGEST_FIX)),
        },
    }


def _locations(finding: Finding, hosts: Sequence[str], path: str) -> list[dict[str, Any]]:
    physical = _source(finding) or _in_report(path)
    logical = [*_logical("host", hosts), *_logical("rank", map(str, finding.ranks))]
    if not physical and not logical:
        return []
    return [{**physical, **({"logicalLocations": logical} if logical else {})}]


def _source(finding: Finding) -> dict[str, Any]:
    if finding.location is None or not finding.location.file:
        return {}
    region = {"startLine": finding.location.line} if finding.location.line > 0 else {}
    return _physical(finding.location.file, region)


def _in_report(path: str) -> dict[str, Any]:
    return _physical(path, {"startLine": 1}) if path else {}


def _physical(file: str, region: Mapping[str, int]) -> dict[str, Any]:
    uri = as_uri(file)
    of = {"uri": uri} if uri.startswith("file:") else {"uri": uri, "uriBaseId": "%SRCROOT%"}
    told: dict[str, Any] = {"artifactLocation": of, **({"region": dict(region)} if region else {})}
    return {"physicalLocation": told}


def _logical(kind: str, names: Iterable[str]) -> list[dict[str, str]]:
    listed = list(names)[:MOST_RANKS]
    return [{"name": _name(each), "kind": kind} for each in listed]


def _name(text: str) -> str:
    return one_line(clipped(text, LONGEST_NAME))
