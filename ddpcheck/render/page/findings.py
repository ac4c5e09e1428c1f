"""The findings as the page shows them: who, what, where, the evidence, the stack, the fix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from ddpcheck.errors import CatalogueError
from ddpcheck.finding import Finding
from ddpcheck.render.words import doubt, host_of, where, worst_first
from ddpcheck.report import Report

SIGNS = {"error": "✗", "warning": "!", "info": "i"}
MOST_EVIDENCE = 24


class Chapter(NamedTuple):
    """A section of a check's manual."""

    heading: str
    paragraphs: Sequence[str]


class Shown(NamedTuple):
    """A finding in texts; ``evidence`` are names and values, ``left`` how many further ones."""

    anchor: str
    finding: Finding
    sign: str
    who: str
    confidence: str
    location: str
    evidence: Sequence[tuple[str, str]]
    left: int
    stack: str
    manual: Sequence[Chapter]


def findings_of(report: Report) -> list[Shown]:
    """Return the findings, the worst first."""
    hosts, stacks = host_of(report), _stacks(report)
    manuals = _manuals() if report.findings else {}
    return [
        _shown(number, finding, hosts, stacks, manuals.get(finding.id, ""))
        for number, finding in enumerate(worst_first(report.findings), 1)
    ]


def chapters(manual: str) -> list[Chapter]:
    """Return the sections of a check's docstring: a heading, and indented text below it."""
    found: list[Chapter] = []
    paragraphs: list[str] = []
    for line in manual.splitlines()[1:]:
        if line and not line.startswith(" "):
            paragraphs = [""]
            found.append(Chapter(line, paragraphs))
        elif not line.strip():
            paragraphs.append("")
        elif paragraphs:
            paragraphs[-1] = f"{paragraphs[-1]} {line.strip()}".strip()
    return [Chapter(each.heading, [p for p in each.paragraphs if p]) for each in found]


def _shown(
    number: int, finding: Finding, hosts: Mapping[int, str], stacks: Mapping[int, str], manual: str
) -> Shown:
    evidence = list(_evidence(finding.evidence))
    return Shown(
        anchor=f"finding-{number}",
        finding=finding,
        sign=SIGNS[finding.severity.value],
        who=where(finding.ranks, hosts),
        confidence=doubt(finding),
        location=str(finding.location) if finding.location else "",
        evidence=evidence[:MOST_EVIDENCE],
        left=max(0, len(evidence) - MOST_EVIDENCE),
        stack=next((stacks[rank] for rank in finding.ranks if rank in stacks), ""),
        manual=chapters(manual),
    )


def _evidence(evidence: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in evidence.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}: {key}", str(member)) for key, member in value.items())
        elif isinstance(value, list | tuple):
            yield name, ", ".join(map(str, value))
        else:
            yield name, str(value)


def _stacks(report: Report) -> dict[int, str]:
    return {
        record.rank: record.last_seen.stack
        for record in report.ranks
        if record.outcome.is_gone and record.last_seen and record.last_seen.stack
    }


def _manuals() -> dict[str, str]:
    from ddpcheck.catalogue import catalogue

    # A page can do without; who runs checks hears of a broken one.
    with suppress(CatalogueError):
        return {check.id: check.manual for check in catalogue()}
    return {}
