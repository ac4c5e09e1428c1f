"""The report for a terminal: ASCII, 100 columns, the verdict on the last line."""

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ddpcheck.finding import Finding
from ddpcheck.measures.words import counted, known_as
from ddpcheck.render.comparison import change_lines
from ddpcheck.render.configuration import configuration_lines
from ddpcheck.render.fitting import fitted
from ddpcheck.render.folding import lines_of
from ddpcheck.render.gone import Gone, gone_ranks
from ddpcheck.render.table import RankTable, rank_table
from ddpcheck.render.training import training_lines
from ddpcheck.render.words import (
    LONGEST_NAME,
    LONGEST_TEXT,
    clipped,
    doubt,
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
# Beside a column of seconds.
ASIDE = " " * 12
WIDEST_ID = 44
# What is cut here stands in full in report.json.
MOST_FINDINGS = 100
MOST_GONE = 24
MOST_STACKS = 4
MOST_STACK_LINES = 30
MOST_ROWS = 64
MOST_SETTINGS = 60
MOST_OF_SETTING = 500


def render(report: Report, path: str = "") -> str:
    """Return the report as text of at most 100 columns, the last line being the verdict.

    ``path`` is where the report lies; the verdict line names it, unbroken however long,
    so that it can be copied.
    """
    return joined(sections(report, path))


def sections(report: Report, path: str) -> list[list[str]]:
    """Return the lines of each section, the verdict's last; a section may have none."""
    return [
        [*_wrapped(headline(report)), *_checks(report.checks)],
        *_findings(report),
        *_gone(report),
        _table(report),
        _settings(report),
        _recommendation(report),
        _training(report),
        _against_baseline(report),
        [_ascii(verdict_line(report) + (f" | {one_line(path)}" if path else ""))],
    ]


def joined(told: Iterable[Sequence[str]]) -> str:
    """Return sections as one text."""
    return "\n\n".join("\n".join(lines) for lines in told if lines) + "\n"


def beside_seconds(lines: Iterable[str]) -> list[str]:
    """Return lines that begin with a column of seconds, at most as wide as the others."""
    return [each for line in lines for each in _wrapped(clipped(line, MOST_OF_SETTING), rest=ASIDE)]


def _checks(checks: Sequence[CheckRecord]) -> Iterator[str]:
    lines = list(lines_of(checks))
    width = min(WIDEST_ID, max((len(line.name) for line in lines), default=0))
    for line in lines:
        name = clipped(_ascii(_short(line.name)), WIDEST_ID)
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
    confidence = doubt(finding, ", ")
    lead = f"{finding.severity.value:<7}  {clipped(_ascii(_short(finding.id)), WIDEST_ID)}   "
    yield from _wrapped(where(finding.ranks, hosts) + confidence, lead, INDENT)
    yield from _wrapped(_short(finding.title), INDENT, INDENT)
    for paragraph in clipped(finding.message, LONGEST_TEXT).splitlines():
        yield from _wrapped(one_line(paragraph), INDENT, INDENT)
    if finding.location:
        yield from _wrapped(f"at: {_short(str(finding.location))}", INDENT, INDENT + "    ")
    yield from _wrapped(f"fix: {_short(finding.fix)}", INDENT, INDENT + "     ")


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
    name = known_as(gone.check)
    told = not name or name in gone.reason
    last = "" if told else f", last seen in {_short(name)}"
    yield from _wrapped(where(gone.ranks, hosts) + last, f"{gone.outcome.value:<7}  ", INDENT)
    yield from _wrapped(_short(gone.reason), INDENT, INDENT)
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
        yield from _wrapped(printable(clipped(bare, LONGEST_TEXT)), indent, indent + "  ")


def _table(report: Report) -> list[str]:
    headers, rows = rank_table(report)
    shown = [[_cell(cell) for cell in row] for row in rows[:MOST_ROWS]]
    lines = fitted(RankTable([_cell(each) for each in headers], shown), WIDTH) if shown else []
    if len(rows) > MOST_ROWS:
        lines.append(f"... and {counted(len(rows) - MOST_ROWS, 'more row')} in report.json")
    return lines


def _settings(report: Report) -> list[str]:
    lines = configuration_lines(report)
    shown = [
        each for line in lines[:MOST_SETTINGS] for each in _wrapped(clipped(line, MOST_OF_SETTING))
    ]
    if len(lines) > MOST_SETTINGS:
        shown.append(f"... and {counted(len(lines) - MOST_SETTINGS, 'more line')} in report.json")
    return shown


def _recommendation(report: Report) -> list[str]:
    return [
        line
        for name, each in report.recommendation.items()
        for line in _wrapped(
            f"recommended for train: {_short(name)}={_short(scalar(each.value))} ({_short(each.reason)})",
            "",
            "  ",
        )
    ]


def _training(report: Report) -> list[str]:
    lines = training_lines(report.training or {})
    return [each for line in lines for each in _wrapped(_short(line), "training  ", INDENT + " ")]


def _against_baseline(report: Report) -> list[str]:
    if not report.changes:
        return []
    against = f"against the baseline {one_line(report.changes.before)}"
    return [*_wrapped(against), *change_lines(report.changes)]


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


def _short(text: str) -> str:
    return one_line(clipped(text, LONGEST_TEXT))


def _cell(text: str) -> str:
    return _ascii(clipped(text, LONGEST_NAME))


def _ascii(text: str) -> str:
    return text.encode("ascii", "backslashreplace").decode()
