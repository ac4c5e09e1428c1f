"""What changed between two reports, as text, markdown or JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

import msgspec

from ddpcheck import jsontext
from ddpcheck.change import Change, Comparison, Course
from ddpcheck.measures.words import counted
from ddpcheck.render.words import clipped, headline, one_line, where
from ddpcheck.report import Report

WIDTH = 100
INDENT = " " * 9
PERCENT = 100
# What is cut here stands in full in the JSON.
MOST_CHANGES = 60
MOST_LEFT_OUT = 12
LONGEST_TEXT = 400


def render_comparison(told: Comparison, format_name: str, old: Report, new: Report) -> str:
    """Return the comparison as ``format_name``, json, markdown or text, ending with a newline."""
    if format_name == "json":
        return jsontext.indented({**_counts(told), **msgspec.to_builtins(told)}).decode()
    if format_name == "markdown":
        return "\n".join(_markdown(told, old, new)) + "\n"
    return "\n".join([*_heads(old, new), *change_lines(told)]) + "\n"


def change_lines(told: Comparison) -> list[str]:
    """Return the changes as lines of at most 100 ASCII columns, the last one being the result."""
    lines = [line for change in told.changes[:MOST_CHANGES] for line in _change(change)]
    if len(told.changes) > MOST_CHANGES:
        lines.append(f"{INDENT}... and {_more(told.changes[MOST_CHANGES:])}")
    for why in told.left_out[:MOST_LEFT_OUT]:
        lines += _wrapped(f"not compared  {_safe(why)}")
    if len(told.left_out) > MOST_LEFT_OUT:
        lines.append(f"not compared  {len(told.left_out) - MOST_LEFT_OUT} more")
    return [*lines, _ascii(result_line(told))]


def result_line(told: Comparison) -> str:
    """Return the result in a line."""
    counts = [f"{told.count(each)} {each.value}" for each in Course]
    result = "WORSE" if told.is_worse else "NOT WORSE"
    bound = f"bound {PERCENT * told.bound_ratio:g} % and the noise of both runs"
    return f"diff: {result}, {', '.join(counts)} ({bound})"


def _heads(old: Report, new: Report) -> list[str]:
    return [
        line
        for name, report in (("before", old), ("now", new))
        for line in _wrapped(
            _safe(f"{report.verdict.upper()} | {headline(report)} | {report.run.id}"),
            f"{name:<7}  ",
        )
    ]


def _change(change: Change) -> Iterator[str]:
    lead = f"{change.course.value:<7}  "
    yield from _wrapped(_safe(sentence(change)), lead, INDENT)


def worse_sentences(told: Comparison) -> list[str]:
    """Return what became worse in words, a line each, bounded; the last one says how many more."""
    worse = [change for change in told.changes if change.course is Course.WORSE]
    more = [f"... and {_more(worse[MOST_CHANGES:])}"] if len(worse) > MOST_CHANGES else []
    return [*(one_line(sentence(change)) for change in worse[:MOST_CHANGES]), *more]


def sentence(change: Change) -> str:
    """Return a change in words, such as ``speed: all_reduce of 1 KiB: 20 us -> 40 us (-50 %)``."""
    told = f"{change.part.value}: {change.what}"
    if change.ranks and not _names_ranks(change):
        told += f" ({where(change.ranks, {})})"
    told += f": {_moved(change)}"
    if change.ratio is not None:
        told += f" ({PERCENT * change.ratio:+.0f} %)"
    return told + (f"; {change.note}" if change.note else "")


def _moved(change: Change) -> str:
    if not change.before:
        return f"new: {_clip(change.now)}"
    return f"{_clip(change.before)} -> {_clip(change.now)}" if change.now else _gone(change)


def _gone(change: Change) -> str:
    return f"gone: {_clip(change.before)}"


def _names_ranks(change: Change) -> bool:
    return change.what.startswith("rank") or " rank" in change.what


def _more(changes: Sequence[Change]) -> str:
    return f"{counted(len(changes), 'more change')}: --format json has all"


def _markdown(told: Comparison, old: Report, new: Report) -> Iterator[str]:
    """Yield GitHub markdown: the result first, then the changes as fenced text."""
    yield f"**{_ascii(result_line(told))}**"
    yield ""
    fenced = [*_heads(old, new), *change_lines(told)[:-1]]
    yield "```text"
    # Three backticks in a text from elsewhere would end the block.
    yield from (line.replace("```", "'''") for line in fenced)
    yield "```"


def _counts(told: Comparison) -> dict[str, object]:
    return {"worse": told.is_worse, "counts": {each.value: told.count(each) for each in Course}}


def _safe(text: str) -> str:
    return _ascii(one_line(text))


def _clip(text: str) -> str:
    return clipped(one_line(text), LONGEST_TEXT)


def _wrapped(text: str, first: str = "", rest: str = INDENT) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    )


def _ascii(text: str) -> str:
    return text.encode("ascii", "backslashreplace").decode()
