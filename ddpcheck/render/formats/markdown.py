"""The report for a GitHub issue: the verdict first, long tables folded, a bounded size."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ddpcheck.finding import Finding
from ddpcheck.measures.words import counted
from ddpcheck.render.comparison import change_lines
from ddpcheck.render.configuration import configuration_lines
from ddpcheck.render.gone import gone_ranks
from ddpcheck.render.table import rank_table
from ddpcheck.render.training import training_lines
from ddpcheck.render.words import (
    clipped,
    detail,
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
from ddpcheck.report import CheckOutcome, CheckRecord, Report

# GitHub refuses an issue above 65,536 characters: the sections' shares add up to less.
MOST_FOR_FINDINGS = 20_000
MOST_FOR_STACKS = 10_000
MOST_FOR_RANKS = 9_000
MOST_FOR_CHECKS = 9_000
MOST_FOR_RECOMMENDATION = 3_000
MOST_FOR_TRAINING = 2_000
MOST_FOR_SETTINGS = 2_000
MOST_FOR_CHANGES = 4_000
# Escaping can make a text many times as long, so texts are clipped before it.
LONGEST_TEXT = 600
LONGEST_CELL = 120
LONGEST_STACK = 3_000
MUCH_TOO_LONG = 10_000


def render(report: Report, path: str = "") -> str:
    """Return the report as GitHub markdown, under 60,000 characters whatever the world size.

    ``path`` is where the report lies; it is named below the command.
    """
    sections = [
        [f"**{_text(verdict_line(report))}**"],
        _head(report, path),
        _findings(report),
        _settings(report),
        _stacks(report),
        _rank_table(report),
        _checks(report.checks),
        _recommendation(report),
        _training(report),
        _against_baseline(report),
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines) + "\n"


def _head(report: Report, path: str) -> list[str]:
    command = f"command: {_code(report.run.command)}"
    place = ["", f"report: {_code(path)}"] if path else []
    return [_code(headline(report)), "", command, *place]


def _findings(report: Report) -> list[str]:
    hosts = host_of(report)
    blocks = [_finding(finding, hosts) for finding in worst_first(report.findings)]
    return _headed("### Findings", _within(blocks, MOST_FOR_FINDINGS, "finding"))


def _finding(finding: Finding, hosts: Mapping[int, str]) -> str:
    who = _text(where(finding.ranks, hosts) + doubt(finding, ", "))
    lines = [f"- **{finding.severity.value}** {_code(finding.id)}, {who}: {_text(finding.title)}"]
    lines.append(_line(finding.message))
    if finding.location:
        lines.append(f"at: {_code(str(finding.location))}")
    lines.append(f"fix: {_text(finding.fix)}")
    return "<br>\n  ".join(lines)


def _settings(report: Report) -> list[str]:
    lines = [f"- {_line(line)}" for line in configuration_lines(report)]
    return _headed("### Settings", _within(lines, MOST_FOR_SETTINGS, "line"))


def _stacks(report: Report) -> list[str]:
    hosts = host_of(report)
    gone = [
        _folded(
            f"{each.outcome.value}: {where(each.ranks, hosts)}: {each.reason}",
            _fenced(each.stack) if each.stack else ["no stack came"],
        )
        for each in gone_ranks(report)
    ]
    broken = [
        _folded(f"error: {check.id}: {detail(check)}", _fenced(check.reason))
        for check in report.checks
        if check.outcome is CheckOutcome.ERROR
    ]
    blocks = ["\n".join(block) for block in (*gone, *broken)]
    return _headed("### What did not come through", _within(blocks, MOST_FOR_STACKS, "part"))


def _rank_table(report: Report) -> list[str]:
    headers, rows = rank_table(report)
    lines = _within(map(_row, rows), MOST_FOR_RANKS, "row")
    return _folded("Ranks", [_row(headers), _rule(len(headers)), *lines]) if rows else []


def _checks(checks: Sequence[CheckRecord]) -> list[str]:
    headers = ["check", "outcome", "slowest rank", "seen"]
    lines = _within(map(_check_row, checks), MOST_FOR_CHECKS, "check")
    return _folded("Checks", [_row(headers), _rule(len(headers)), *lines]) if checks else []


def _check_row(check: CheckRecord) -> str:
    took = "" if check.outcome is CheckOutcome.SKIP else seconds(check.duration_s)
    return _row([check.id, check.outcome.value, took, detail(check)])


def _recommendation(report: Report) -> list[str]:
    lines = [
        f"- {_code(f'{name}={scalar(each.value)}')}: {_text(each.reason)}"
        for name, each in report.recommendation.items()
    ]
    return _headed("### Recommended for train", _within(lines, MOST_FOR_RECOMMENDATION, "setting"))


def _training(report: Report) -> list[str]:
    lines = [f"- {_line(line)}" for line in training_lines(report.training or {})]
    return _headed("### Training", _within(lines, MOST_FOR_TRAINING, "line"))


def _against_baseline(report: Report) -> list[str]:
    if not report.changes:
        return []
    *changes, result = change_lines(report.changes)
    shown = _fenced("\n".join(changes)[:MOST_FOR_CHANGES]) if changes else []
    return ["### Against the baseline", "", _text(result), *([""] if shown else []), *shown]


def _headed(heading: str, blocks: Sequence[str]) -> list[str]:
    return [heading, "", *blocks] if blocks else []


def _within(blocks: Iterable[str], most: int, noun: str) -> list[str]:
    listed = list(blocks)
    kept = list(_fitting(listed, most))
    left = len(listed) - len(kept)
    # Paragraph or list item, the note is set apart from a table's last row.
    return [*kept, "", f"... and {counted(left, f'more {noun}')} in report.json"] if left else kept


def _fitting(blocks: Iterable[str], most: int) -> Iterator[str]:
    for block in blocks:
        most -= len(block) + 1
        if most < 0:
            return
        yield block


def _folded(summary: str, lines: Sequence[str]) -> list[str]:
    # GitHub reads markdown inside <details> only after an empty line.
    shown = _html(_clipped_line(summary))
    return [f"<details><summary>{shown}</summary>", "", *lines, "", "</details>"]


def _fenced(text: str) -> list[str]:
    lines = [printable(line) for line in text[:LONGEST_STACK].splitlines()]
    fence = _longer_than_inside("\n".join(lines), least=3)
    cut = ["..."] if len(text) > LONGEST_STACK else []
    return [f"{fence}text", *lines, *cut, fence]


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(_text(clipped(_clipped_line(cell), LONGEST_CELL)) for cell in cells)} |"


def _rule(columns: int) -> str:
    return "|" + " --- |" * columns


def _text(text: str) -> str:
    """Return ``text`` so that GitHub shows it as it is, with no markup, HTML or mention."""
    escaped = _clipped_line(text)
    escaped = re.sub(r"[\\`*|~$\[\]]|(?<!\w)_|_(?!\w)", r"\\\g<0>", escaped)
    return _html(escaped)


def _clipped_line(text: str) -> str:
    # What is far too long is cut twice: escaping a megabyte takes seconds.
    return clipped(one_line(clipped(text, MUCH_TOO_LONG)), LONGEST_TEXT)


def _line(text: str) -> str:
    """Return ``text`` for the start of a line, where it could also begin a heading or a list."""
    return re.sub(r"^(\d+(?=[.)](\s|$))|(?=[#+-]+(\s|$))|(?=[=-]+$))", r"\1\\", _text(text))


def _html(text: str) -> str:
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    # The comment keeps GitHub from notifying whoever has that name.
    return escaped.replace("@", "@<!-- -->")


def _code(text: str) -> str:
    """Return ``text`` as a code span, whatever backticks it holds."""
    plain = _clipped_line(text) or " "
    fence = _longer_than_inside(plain, least=1)
    pad = " " if "`" in plain else ""
    return f"{fence}{pad}{plain}{pad}{fence}"


def _longer_than_inside(text: str, *, least: int) -> str:
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    return "`" * max(least, longest + 1)
