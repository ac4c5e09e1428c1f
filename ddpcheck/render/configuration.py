"""What a settings file changed in a run, in short lines: none of it may go unseen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ddpcheck.configuration import Configuration, Suppressed, Suppression
from ddpcheck.render.words import host_of, one_line, where
from ddpcheck.report import Report


def configuration_lines(report: Report) -> list[str]:
    """Return a line for each option, severity and threshold that is not ddpcheck's own.

    And one for each finding that is suppressed, with the reason, and for each suppression that has
    no use.
    """
    asked = report.run.configuration
    hosts = host_of(report)
    return [
        *(_changed(asked) if asked else ()),
        *(_suppressed(each, hosts) for each in report.suppressed),
        *(_unused(each) for each in report.unused_suppressions),
    ]


def _changed(asked: Configuration) -> Iterator[str]:
    over = f"; {one_line(asked.passed_over)} beside it is passed over" if asked.passed_over else ""
    options = " ".join(f"{name}={one_line(value)}" for name, value in asked.options.items())
    told = f": {options}" if options else ""
    yield f"settings from {one_line(asked.file)}{told}{over}"
    for entry, severity in asked.severity.items():
        yield f"severity of {one_line(entry)}: {severity.value}"
    for each in asked.thresholds:
        told = f"{one_line(str(each.value))} instead of {one_line(str(each.default))}"
        yield f"threshold of {one_line(each.check)}: {one_line(each.name)} is {told}"


def _suppressed(suppressed: Suppressed, hosts: Mapping[int, str]) -> str:
    finding = suppressed.finding
    at = f", {finding.location}" if finding.location else ""
    who = where(finding.ranks, hosts)
    return (
        f"suppressed {finding.severity.value} {one_line(finding.id)}, {who}{one_line(at)}: "
        f"{one_line(finding.title)} (reason: {one_line(suppressed.reason)})"
    )


def _unused(suppression: Suppression) -> str:
    parts = [
        f"{name} {one_line(str(value))}"
        for name, value in (("matching", suppression.match), ("at", suppression.location))
        if value
    ]
    what = " ".join([one_line(suppression.check), *parts])
    return f"unused suppression of {what} (reason: {one_line(suppression.reason)}): remove it"
