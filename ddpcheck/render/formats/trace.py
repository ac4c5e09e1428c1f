"""A trace for ui.perfetto.dev or chrome://tracing: what ran when.

Where the ranks' files lie beside the report, there is a row for each rank, with its stages and
checks at the times that it noted (by its host's clock); a check that has no end lasts to the last
time known. A report alone has no such times: then one row shows the checks one after the other,
each as long as on its slowest rank. Below, each rank that profiled training steps has one step, of
the parts that it measured, in their order. Of more than 256 ranks, those to blame and the first
ones are shown. Source: "Trace Event Format", the JSON that both read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, groupby
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from ddpcheck import jsontext
from ddpcheck.finding import Severity
from ddpcheck.measures.split import StepSplit
from ddpcheck.render.measured import step_splits
from ddpcheck.render.timeline import Span, spans_of
from ddpcheck.render.words import clipped, headline, one_line, verdict_line
from ddpcheck.report import CheckOutcome, RankOutcome, RankRecord, Report

MICRO = 1e6
MOST_RANKS = 256
LONGEST_NAME = 200
# Rows of a rank, and the process that stands for the slowest rank of each check.
STAGES, CHECKS, STEP = 0, 1, 2
ROWS = {STAGES: "stages", CHECKS: "checks", STEP: "one profiled step"}
ALL_RANKS = "all ranks, each check as long as on its slowest rank"
Event: TypeAlias = dict[str, Any]


class Timed(NamedTuple):
    """A check of one row, in seconds from the first moment that is known."""

    check: str
    outcome: str
    at_s: float
    took_s: float


def render(report: Report, path: str = "") -> str:
    """Return the trace as JSON; times are microseconds from the first that is known.

    ``path`` is where the report lies, a file or a run directory; ``ranks/*.jsonl`` are read there.
    """
    shown = _shown(report)
    noted = {rank: spans_of(Path(path), rank) for rank in shown} if path else {}
    known = {rank: spans for rank, spans in noted.items() if spans}
    events = [*(_measured(report, known) if known else _made_up(report)), *_steps(report, shown)]
    about = {"run": _name(report.run.id), "headline": headline(report)}
    whole = {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {**about, "verdict": verdict_line(report)},
    }
    return jsontext.encode(whole).decode() + "\n"


def _shown(report: Report) -> list[int]:
    """Return the ranks that get rows: all, or those to blame first and then the lowest."""
    every = sorted({record.rank for record in report.ranks})
    odd = {record.rank for record in report.ranks if record.outcome is not RankOutcome.OK}
    for finding in report.findings:
        if finding.severity is not Severity.INFO and len(finding.ranks) < len(every):
            odd.update(finding.ranks)
    first = sorted(every, key=lambda rank: (rank not in odd, rank))[:MOST_RANKS]
    return sorted(first)


def _measured(report: Report, spans: Mapping[int, Sequence[Span]]) -> Iterator[Event]:
    stages = {check.id: check.stage for check in report.checks}
    start = min(each.began for own in spans.values() for each in own)
    last = max(each.began + (each.took_s or 0) for own in spans.values() for each in own)
    titles = _titles(report)
    for rank, own in spans.items():
        yield from _named(rank, titles[rank], (STAGES, CHECKS))
        timed = [
            Timed(each.check, each.outcome, each.began - start, _took_s(each, last)) for each in own
        ]
        yield from _rows(rank, timed, stages)


def _took_s(span: Span, last: float) -> float:
    return last - span.began if span.took_s is None else span.took_s


def _rows(pid: int, timed: Sequence[Timed], stages: Mapping[str, str]) -> Iterator[Event]:
    for each in timed:
        event = _event(pid, CHECKS, each.check, each.at_s, each.took_s)
        yield event | {"args": {"outcome": each.outcome}}
    # Work between checks has the name of its stage before its own.
    stage_of = {each.check: stages.get(each.check, each.check.partition("/")[0]) for each in timed}
    for stage, group in groupby(timed, key=lambda each: stage_of[each.check]):
        listed = list(group)
        began = min(each.at_s for each in listed)
        end = max(each.at_s + each.took_s for each in listed)
        yield _event(pid, STAGES, stage, began, end - began)


def _made_up(report: Report) -> Iterator[Event]:
    """Yield the checks in their order, as the report alone knows them."""
    ran = [each for each in report.checks if each.outcome is not CheckOutcome.SKIP]
    pid = 1 + max((record.rank for record in report.ranks), default=0)
    yield from _named(pid, ALL_RANKS, (STAGES, CHECKS))
    lengths = [max(0.0, each.duration_s) if isfinite(each.duration_s) else 0.0 for each in ran]
    starts = accumulate(lengths, initial=0.0)
    timed = [
        Timed(each.id, each.outcome.value, at_s, took_s)
        for each, at_s, took_s in zip(ran, starts, lengths, strict=False)
    ]
    yield from _rows(pid, timed, {each.id: each.stage for each in ran})


def _steps(report: Report, shown: Sequence[int]) -> Iterator[Event]:
    splits, titles = step_splits(report), _titles(report)
    for rank in shown:
        if rank in splits:
            yield from _named(rank, titles[rank], (STEP,))
            yield from _step(rank, splits[rank])


def _step(rank: int, split: StepSplit) -> Iterator[Event]:
    at_s = 0.0
    for name, share in split.shares().items():
        took_s = share * split.step_s
        yield _event(rank, STEP, name, at_s, took_s) | {"args": {"median of steps": split.steps}}
        at_s += took_s


def _titles(report: Report) -> dict[int, str]:
    return {record.rank: _title(record) for record in report.ranks}


def _title(record: RankRecord) -> str:
    outcome = "" if record.outcome is RankOutcome.OK else record.outcome.value
    return ", ".join(filter(None, [f"rank {record.rank}", record.host, record.device, outcome]))


def _named(pid: int, title: str, rows: Sequence[int]) -> Iterator[Event]:
    yield _meta(pid, STAGES, "process_name", {"name": _name(title)})
    yield _meta(pid, STAGES, "process_sort_index", {"sort_index": pid})
    yield from (_meta(pid, row, "thread_name", {"name": ROWS[row]}) for row in rows)


def _meta(pid: int, row: int, name: str, about: Mapping[str, Any]) -> Event:
    return {"ph": "M", "pid": pid, "tid": row, "name": name, "args": dict(about)}


def _event(pid: int, row: int, name: str, at_s: float, took_s: float) -> Event:
    return {
        "ph": "X",
        "pid": pid,
        "tid": row,
        "name": _name(name),
        "ts": round(at_s * MICRO, 3),
        "dur": round(max(took_s, 0.0) * MICRO, 3),
    }


@lru_cache(4096)
def _name(text: str) -> str:
    return one_line(clipped(text, LONGEST_NAME))
