"""The heatmap: ranks by stages, with the guilty cells marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ddpcheck.finding import Severity
from ddpcheck.render.page.cause import Cause
from ddpcheck.render.table import RankRow, rank_rows, stages_of
from ddpcheck.render.words import worst_first
from ddpcheck.report import RankOutcome, Report

# Of the texts of a cell, those that mean something; all others count errors or warnings.
TONES = {
    "ok": "pass",
    "skip": "skip",
    "raised": "error",
    "unjudged": "error",
    "failed": "error",
    "stalled": "gone",
    "lost": "gone",
}
SIGNS = {"pass": "✓", "skip": "-", "error": "✗", "warning": "!", "gone": "■"}
GONE = tuple(each.value for each in RankOutcome if each.is_gone)
CALM = ("pass", "skip")


class Cell(NamedTuple):
    """A stage on some ranks: what it says, its tone and sign; where more of it stands, if it does."""

    text: str
    tone: str
    sign: str
    anchor: str
    is_guilty: bool


class Row(NamedTuple):
    """Ranks that fared alike."""

    ranks: str
    host: str
    device: str
    cells: Sequence[Cell]


class Grid(NamedTuple):
    """The heatmap: a column a stage, and one for the outcome."""

    stages: Sequence[str]
    rows: Sequence[Row]

    @property
    def has_guilty(self) -> bool:
        """Return whether a cell is marked."""
        return any(cell.is_guilty for row in self.rows for cell in row.cells)


def grid_of(report: Report, cause: Cause) -> Grid:
    """Return the heatmap, the rows with guilty cells first, then those in which something is wrong."""
    stages = [*stages_of(report), "outcome"]
    anchors = _anchors(report)
    rows = [_row(row, stages, cause, anchors) for row in rank_rows(report, apart=cause.ranks)]
    return Grid(stages, sorted(rows, key=_calm))


def _calm(row: Row) -> tuple[bool, bool]:
    return (
        not any(cell.is_guilty for cell in row.cells),
        all(cell.tone in CALM for cell in row.cells),
    )


def _anchors(report: Report) -> dict[tuple[str, int], str]:
    """Return where the worst finding of a stage on a rank stands, by stage and rank."""
    stages = {check.id: check.stage for check in report.checks}
    found: dict[tuple[str, int], str] = {}
    for number, finding in enumerate(worst_first(report.findings), 1):
        if finding.severity is not Severity.INFO:
            for rank in finding.ranks:
                found.setdefault((stages.get(finding.id, ""), rank), f"finding-{number}")
    return found


def _row(
    row: RankRow, stages: Sequence[str], cause: Cause, anchors: Mapping[tuple[str, int], str]
) -> Row:
    ranks, host, device, *texts = row.cells
    # Where a rank has gone is where it was last seen, whatever names it.
    gone_in = next((stage for stage, text in zip(stages, texts, strict=True) if text in GONE), "")
    guilty_stage = gone_in or cause.stage
    is_meant = bool(set(row.ranks) & set(cause.ranks))
    cells: list[Cell] = []
    for stage, text in zip(stages, texts, strict=True):
        cell = _cell(text, anchors.get((stage, row.ranks[0]), ""))
        is_guilty = stage == guilty_stage and _is_guilty(cell, cause, is_meant=is_meant)
        cells.append(cell._replace(is_guilty=is_guilty))
    return Row(ranks, host, device, cells)


def _is_guilty(cell: Cell, cause: Cause, *, is_meant: bool) -> bool:
    # What names no rank is marked wherever it shows.
    return is_meant if cause.ranks else cell.tone not in CALM


def _cell(text: str, anchor: str) -> Cell:
    tone = TONES.get(text, "warning" if "warning" in text else "error")
    where = anchor if tone in ("error", "warning") else "gone" * (tone == "gone")
    return Cell(text, tone, SIGNS[tone], where, is_guilty=False)
