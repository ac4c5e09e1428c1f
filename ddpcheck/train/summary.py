"""The summary of a training run, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tabulate import tabulate

from ddpcheck.measures.words import as_options, size
from ddpcheck.train.planning import mesh_text
from ddpcheck.train.progress import short_count

PARITY_KINDS = ("loss", "norm", "gradient", "weights")
PARITY_COLUMNS = ("strategy", "mesh", "options", "precision", *PARITY_KINDS, "result")
SCALING_COLUMNS = (
    *("strategy", "mesh", "bucket", "ranks", "tokens/s", "speed-up", "efficiency"),
    *("communication", "state a rank", "peak a rank"),
)


def summary_lines(training: Mapping[str, Any], report: str) -> list[str]:
    """Return a few lines on the section ``training``; the last one holds the result."""
    first, last = training["loss"][0][1], training["final_loss"]
    setup = (
        f"{training['parameters']:,} parameters, {training['strategy']} ({training['mesh']}) on {_ranks(training)}, "
        f"{training['backend']}, {training['device']}, {training['precision']}, "
        f"global batch {training['global_batch']}"
    )
    result = (
        f"training: loss {first:.2f} -> {last:.2f} in {training['steps']} steps, "
        f"{short_count(training['tokens_per_s'])} tokens/s, "
        f"scaling efficiency {training['scaling_efficiency']:.0%}{_exposed(training)} | {report}"
    )
    alone = f"one rank alone: {short_count(training['single_rank_tokens_per_s'])} tokens/s"
    return [setup, alone, f"checkpoint: {training['checkpoint']}", result]


def parity_lines(rows: Sequence[Mapping[str, Any]], report: str) -> list[str]:
    """Return a table of strategies compared with one process; the last line holds the result.

    Each difference is relative to the value, and stands beside its bound.
    """
    cells = [_parity_cells(row) for row in rows]
    table = tabulate(cells, headers=PARITY_COLUMNS, disable_numparse=True)
    why = [_parity_reason(row) for row in rows if row["result"] != "pass"]
    results = [row["result"] for row in rows]
    counts = ", ".join(f"{results.count(each)} {each}" for each in ("pass", "fail", "skip"))
    return [*table.splitlines(), *why, f"parity with one process: {counts} | {report}"]


def scaling_lines(told: Mapping[str, Any], report: str) -> list[str]:
    """Return a table of strategies by number of ranks; the last line holds the best of them."""
    rows: Sequence[Any] = told["rows"]
    table = tabulate(map(_scaling_cells, rows), headers=SCALING_COLUMNS, disable_numparse=True)
    left_out = [f"skip  {e.strategy} ({mesh_text(e.mesh)}): {e.reason}" for e in told["left_out"]]
    advice = [f"{n}: {e['value']} ({e['reason']})" for n, e in told["recommended"].items()]
    best = max(rows, key=lambda row: row.tokens_per_s)
    result = (
        f"scaling: {best.strategy} on {best.ranks} rank{'s' * (best.ranks > 1)} trains "
        f"{best.speed_up:.2f} times as fast as one process, global batch {told['global_batch']}, {told['precision']} | {report}"
    )
    return [*table.splitlines(), *left_out, *advice, result]


def _scaling_cells(row: Any) -> list[str]:
    share = row.communication
    return [
        " ".join(filter(None, (row.strategy, as_options(row.options)))),
        row.mesh,
        "" if row.bucket_cap_mb is None else f"{row.bucket_cap_mb:g} MiB",
        str(row.ranks),
        short_count(row.tokens_per_s),
        f"{row.speed_up:.2f}",
        f"{row.efficiency:.0%}",
        "-" if share is None else f"{share:.0%}",
        size(max(row.state_bytes)),
        size(max(row.peak_bytes, default=0)) if row.peak_bytes else "-",
    ]


def _parity_cells(row: Mapping[str, Any]) -> list[str]:
    worst = row.get("worst", {})
    differences = [
        f"{worst[kind]['relative']:.1e} {'<=' if worst[kind]['ratio'] <= 1 else '>'} {worst[kind]['bound']:.1e}"
        if kind in worst
        else "-"
        for kind in PARITY_KINDS
    ]
    named = [each or "-" for each in (*_named(row), row.get("precision", ""))]
    return [*named, *differences, row["result"]]


def _named(row: Mapping[str, Any]) -> list[str]:
    return [row["strategy"], row["mesh"], as_options(row["options"])]


def _parity_reason(row: Mapping[str, Any]) -> str:
    named = f"{row['result']}  {' '.join(filter(None, _named(row)))}: "
    if row["result"] == "skip":
        return named + str(row["reason"])
    broken = row["broken"]
    what = " of ".join(filter(None, (broken["kind"], broken["name"])))
    if broken["kind"] == "reference":
        what = f"{broken['name']} of the one process, compared with float64,"
    return (
        f"{named}first at step {broken['step']}: {what} differs by {broken['relative']:.1e} of its "
        f"size; rounding allows {broken['bound']:.1e}{_suspect(row)}"
    )


def _suspect(row: Mapping[str, Any]) -> str:
    suspect = row["suspect"]
    if suspect is None:
        return ""
    return f"; farthest off is the gradient of {suspect['name']}, by {suspect['relative']:.1e}"


def _exposed(training: Mapping[str, Any]) -> str:
    share = training.get("exposed_comm_share")
    return "" if share is None else f", exposed communication {share:.0%}"


def _ranks(training: Mapping[str, Any]) -> str:
    count = training["world_size"]
    return f"{count} rank" if count == 1 else f"{count} ranks"
