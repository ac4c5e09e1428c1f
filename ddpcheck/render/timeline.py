"""When each rank did what: from the files that ranks wrote beside the report.

Nothing but the kind of an entry, its check and its times is read: facts are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite
from pathlib import Path
from typing import NamedTuple

import msgspec

from ddpcheck import jsontext

# Of a run that was checked for hours, the first entries are enough.
MOST_BYTES = 64 << 20
WORK, NO_END = "work", "no end"


class Span(NamedTuple):
    """One check on one rank, or work between two; ``took_s`` is None where no end is known.

    ``began`` is Unix time, ``outcome`` what the rank told of it: measured, skipped, crashed, or
    WORK, or NO_END where it told nothing more.
    """

    check: str
    began: float
    took_s: float | None
    outcome: str


class _Line(msgspec.Struct):
    """What all kinds of entries that tell a time have between them."""

    type: str
    check: str = ""
    at: float = 0.0
    duration_s: float = 0.0


def spans_of(report: Path, rank: int) -> list[Span]:
    """Return the checks of one rank in the order of its file; none where there is no such file.

    ``report`` is the report's file, or its run directory.
    """
    text = _start_of(report, rank) or _start_of(report.parent, rank)
    return list(_spans(list(_lines(text))))


def _start_of(run_dir: Path, rank: int) -> bytes:
    try:
        with (run_dir / "ranks" / f"{rank}.jsonl").open("rb") as file:
            return file.read(MOST_BYTES)
    except (OSError, ValueError):  # the second: a path that no file system takes
        return b""


def _lines(text: bytes) -> Iterator[_Line]:
    for line in text.splitlines():
        try:
            told = jsontext.decode(line, _Line)
        except msgspec.DecodeError:
            continue
        if isfinite(told.at) and isfinite(told.duration_s):
            yield told


def _spans(lines: Sequence[_Line]) -> Iterator[Span]:
    """Yield what the rank did, one after the other; its own work ends where the next thing begins."""
    going: _Line | None = None
    for line in lines:
        if line.type == "began":
            if going:
                yield Span(going.check, going.at, max(0.0, line.at - going.at), WORK)
            going = line
        elif going and line.check == going.check:
            yield Span(line.check, going.at, line.duration_s, line.type)
            going = None
    if going:
        came_on = lines[-1].type == "ended"
        yield Span(going.check, going.at, None, WORK if came_on else NO_END)
