"""The report for a terminal: ASCII, 100 columns, the verdict on the last line."""

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ddpcheck.finding import Confidence, Finding
from ddpcheck.render.fitting import fitted
from ddpcheck.render.folding import lines_of
from ddpcheck.render.gone import Gone, gone_ranks
from ddpcheck.render.table import RankTable, rank_table
from ddpcheck.render.training import training_lines
from ddpcheck.render.words import (
    clipped,
    counted,
    headline,
    host_of,
    one_line,
    printable,
    scalar,
    seconds,
    verdict_line,
    where,
    worst_first,
)
from ddpcheck.report import CheckRecord, Report

WIDTH = 100
INDENT = " " * 9
WIDEST_ID = 44
# What is cut here stands in full in report.json.
MOST_FINDINGS = 100
MOST_GONE = 24
MOST_STACKS = 4
MOST_STACK_LINES = 30
MOST_ROWS = 64


def render(report: Report, path: str = "") -> str:
    """Return the report as text of at most 100 columns, the last line being the verdict.

    ``path`` is where the report lies; the verdict line names it, unbroken however long,
    so that it can be copied.
    """
    sections = [
        [*_wrapped(headline(report)), *_checks(report.checks)],
        *_findings(report),
        *_gone(report),
        _table(report),
        _recommendation(report),
        _training(report),
        [_ascii(verdict_line(report) + (f" | {one_line(path)}" if path else ""))],
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines) + "\n"


def _checks(checks: Sequence[CheckRecord]) -> Iterator[str]:
    lines = list(lines_of(checks))
    width = min(WIDEST_ID, max((len(line.name) for line in lines), default=0))
    for line in lines:
        name = clipped(_ascii(one_line(line.name)), WIDEST_ID)
        took = "" if line.duration_s is None else seconds(line.duration_s)
        lead = f"  {line.outcome.value:<5}  {name:<{width}}  {took:>7}  "
        yield from _wrapped(line.detail, lead, INDENT)


def _findings(report: Report) -> Iterator[list[str]]:
    hosts = host_of(report)
    ordered = worst_first(report.findings)
    for finding in ordered[:MOST_FINDINGS]:
        yield list(_finding(finding, hosts))
    if len(ordered) > MOST_FINDINGS:
        yield [f"... and {counted(len(ordered) - MOST_FINDINGS, 'more finding')} in report.json"]


def _finding(finding: Finding, hosts: Mapping[int, str]) -> Iterator[str]:
    sure = finding.confidence is Confidence.HIGH
    confidence = "" if sure else f", {finding.confidence.value} confidence"
    lead = f"{finding.severity.value:<7}  {clipped(_ascii(one_line(finding.id)), WIDEST_ID)}   "
    yield from _wrapped(where(finding.ranks, hosts) + confidence, lead, INDENT)
    yield from _wrapped(one_line(finding.title), INDENT, INDENT)
    for paragraph in finding.message.splitlines():
        yield from _wrapped(one_line(paragraph), INDENT, INDENT)
    if finding.location:
        yield from _wrapped(f"at: {one_line(str(finding.location))}", INDENT, INDENT + "    ")
    yield from _wrapped(f"fix: {one_line(finding.fix)}", INDENT, INDENT + "     ")


def _gone(report: Report) -> Iterator[list[str]]:
    hosts = host_of(report)
    listed = gone_ranks(report)
    for place, gone in enumerate(listed[:MOST_GONE]):
        yield list(_gone_lines(gone, hosts, with_stack=place < MOST_STACKS))
    if left := [rank for gone in listed[MOST_GONE:] for rank in gone.ranks]:
        yield [
            f"... and {counted(len(left), 'more rank')} that did not come through in report.json"
        ]


def _gone_lines(gone: Gone, hosts: Mapping[int, str], *, with_stack: bool) -> Iterator[str]:
    told = not gone.check or gone.check in gone.reason
    last = "" if told else f", last seen in {one_line(gone.check)}"
    yield from _wrapped(where(gone.ranks, hosts) + last, f"{gone.outcome.value:<7}  ", INDENT)
    yield from _wrapped(one_line(gone.reason), INDENT, INDENT)
    if not gone.stack:
        return
    lines = gone.stack.splitlines()
    shown = lines[:MOST_STACK_LINES] if with_stack else []
    yield from _stack(shown)
    if len(lines) > len(shown):
        yield f"{INDENT}... {counted(len(lines) - len(shown), 'stack line')} more in report.json"


def _stack(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        bare = line.strip()
        depth = min(len(line) - len(line.lstrip()), len(INDENT))
        indent = INDENT + "  " + " " * depth
        yield from _wrapped(printable(bare), indent, indent + "  ")


def _table(report: Report) -> list[str]:
    headers, rows = rank_table(report)
    shown = [[_ascii(cell) for cell in row] for row in rows[:MOST_ROWS]]
    lines = fitted(RankTable([_ascii(each) for each in headers], shown), WIDTH) if shown else []
    if len(rows) > MOST_ROWS:
        lines.append(f"... and {counted(len(rows) - MOST_ROWS, 'more row')} in report.json")
    return lines


def _recommendation(report: Report) -> list[str]:
    return [
        line
        for name, each in report.recommendation.items()
        for line in _wrapped(
            f"recommended for train: {one_line(name)}={scalar(each.value)} ({one_line(each.reason)})",
            "",
            "  ",
        )
    ]


def _training(report: Report) -> list[str]:
    lines = training_lines(report.training or {})
    return [each for line in lines for each in _wrapped(line, "training  ", INDENT + " ")]


def _wrapped(text: str, first: str = "", rest: str = "  ") -> list[str]:
    # A path or an option that is broken at its hyphens cannot be copied.
    lines = textwrap.wrap(
        _ascii(text),
        WIDTH,
        initial_indent=first,
        subsequent_indent=rest,
        break_on_hyphens=False,
    )
    return lines or [first.rstrip()] * bool(first.strip())


def _ascii(text: str) -> str:
    return text.encode("ascii", "backslashreplace").decode()
