"""JUnit XML, as Jenkins, GitLab and other CI services read it: one case a check.

A suite is a stage. A check with an error finding is a failure, one that itself failed an error, a
skip a skip with its reason; warnings and what was measured stand in ``system-out``. The first case,
``verdict``, is an error where the run is incomplete, so that who counts failures sees it, too; the
second one, where there was a baseline, fails where the run is worse than that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from ddpcheck.finding import Finding, Severity
from ddpcheck.measures.words import counted
from ddpcheck.render.comparison import change_lines, result_line, worse_sentences
from ddpcheck.render.configuration import configuration_lines
from ddpcheck.render.gone import gone_ranks
from ddpcheck.render.words import (
    clipped,
    headline,
    host_of,
    one_line,
    several_lines,
    statement,
    verdict_line,
    where,
)
from ddpcheck.report import CheckOutcome, CheckRecord, Report, Verdict

LONGEST_NAME = 250
LONGEST_BODY = 20_000
OWN_SUITE = "ddpcheck"
OTHER_SUITE = "other"


def render(report: Report, path: str = "") -> str:
    """Return the report as JUnit XML, valid by the schema of Jenkins' xUnit plugin (junit-10.xsd).

    ``path`` is where the report lies; it is named as a property.
    """
    root = Element("testsuites", name=OWN_SUITE)
    suites = [_own_suite(report, path), *_stages(report)]
    root.extend(suites)
    for count in ("tests", "failures", "errors"):
        root.set(count, str(sum(int(suite.get(count, 0)) for suite in suites)))
    root.set("time", _time(report.run.duration_s))
    indent(root, " ")
    return "<?xml version='1.0' encoding='UTF-8'?>\n" + tostring(root, encoding="unicode") + "\n"


def _own_suite(report: Report, path: str) -> Element:
    case = Element("testcase", name="verdict", classname=OWN_SUITE)
    case.set("time", _time(report.run.duration_s))
    if report.verdict is Verdict.INCOMPLETE:
        told = [verdict_line(report), *_reasons(report)]
        _add(case, "error", told[0], "\n".join(told), Verdict.INCOMPLETE.value)
    _add_output(case, [headline(report), verdict_line(report), *configuration_lines(report)])
    suite = _suite(OWN_SUITE, [case, *_against_baseline(report)])
    suite.set("timestamp", _attribute(report.run.started_at).removesuffix("Z"))
    suite.insert(0, _properties(report, path))
    return suite


def _against_baseline(report: Report) -> list[Element]:
    if not report.changes:
        return []
    case = Element("testcase", name="baseline", classname=OWN_SUITE, time=_time(0))
    if report.changes.is_worse:
        told = "\n".join(worse_sentences(report.changes))
        _add(case, "failure", result_line(report.changes), told, "baseline")
    _add_output(case, change_lines(report.changes))
    return [case]


def _reasons(report: Report) -> list[str]:
    hosts = host_of(report)
    gone = gone_ranks(report)
    return [f"{each.outcome.value} {where(each.ranks, hosts)}: {each.reason}" for each in gone]


def _properties(report: Report, path: str) -> Element:
    run = report.run
    known = {
        "report": path,
        "run": run.id,
        "command": run.command,
        "backend": run.backend,
        "launcher": run.launcher,
        "requested_world_size": str(run.requested_world_size),
        "world_size": str(run.world_size),
        **{f"version.{name}": version for name, version in run.versions.items()},
    }
    properties = Element("properties")
    for name, value in ((name, value) for name, value in known.items() if value):
        SubElement(properties, "property", name=_attribute(name), value=_attribute(value))
    return properties


def _stages(report: Report) -> list[Element]:
    hosts = host_of(report)
    found: dict[str, list[Finding]] = {}
    for finding in report.findings:
        found.setdefault(finding.id, []).append(finding)
    cases: dict[str, list[Element]] = {}
    for check in report.checks:
        case = _case(check, found.pop(check.id, []), hosts)
        cases.setdefault(check.stage, []).append(case)
    for finding in (each for strays in found.values() for each in strays):
        cases.setdefault(OTHER_SUITE, []).append(_stray(finding, hosts))
    return [_suite(stage, listed) for stage, listed in cases.items()]


def _suite(name: str, cases: Sequence[Element]) -> Element:
    suite = Element("testsuite", name=_attribute(name), tests=str(len(cases)))
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(attribute, str(sum(case.find(tag) is not None for case in cases)))
    suite.set("time", _time(sum(float(case.get("time", 0)) for case in cases)))
    suite.extend(cases)
    return suite


def _case(check: CheckRecord, findings: Sequence[Finding], hosts: Mapping[int, str]) -> Element:
    case = Element(
        "testcase",
        name=_attribute(check.id),
        classname=_attribute(f"{OWN_SUITE}.{check.stage}"),
        time=_time(check.duration_s),
    )
    errors = [each for each in findings if each.severity is Severity.ERROR]
    if errors:
        _add_failure(case, errors, hosts)
    elif check.outcome is CheckOutcome.SKIP:
        SubElement(case, "skipped", message=_attribute(check.reason))
    elif check.outcome is CheckOutcome.ERROR:
        _add(case, "error", check.reason, check.reason, "check")
    others = [statement(each, hosts) for each in findings if each.severity is not Severity.ERROR]
    told = "" if check.outcome is CheckOutcome.SKIP else check.reason
    _add_output(case, [check.summary, told, *others])
    return case


def _stray(finding: Finding, hosts: Mapping[int, str]) -> Element:
    case = Element("testcase", name=_attribute(finding.id), classname=OWN_SUITE, time=_time(0))
    if finding.severity is Severity.ERROR:
        _add_failure(case, [finding], hosts)
    else:
        _add_output(case, [statement(finding, hosts)])
    return case


def _add_failure(case: Element, errors: Sequence[Finding], hosts: Mapping[int, str]) -> None:
    more = f" (and {counted(len(errors) - 1, 'more error')})" if len(errors) > 1 else ""
    message = clipped(errors[0].title, LONGEST_NAME) + more
    _add(case, "failure", message, "\n\n".join(statement(e, hosts) for e in errors), errors[0].id)


def _add(case: Element, tag: str, message: str, text: str, kind: str) -> None:
    SubElement(case, tag, message=_attribute(message), type=_attribute(kind)).text = _body(text)


def _add_output(case: Element, texts: Iterable[str]) -> None:
    if told := [text for text in texts if text]:
        SubElement(case, "system-out").text = _body("\n".join(told))


def _attribute(text: str) -> str:
    return one_line(clipped(text, LONGEST_NAME))


def _body(text: str) -> str:
    return several_lines(text, LONGEST_BODY)


def _time(duration_s: float) -> str:
    return f"{duration_s:.3f}" if isfinite(duration_s) and duration_s > 0 else "0.000"
