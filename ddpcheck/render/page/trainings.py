"""The tables of the reference training run: parity with one process, and scaling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ddpcheck.measures.words import as_options, size
from ddpcheck.render.measured import number, rows
from ddpcheck.render.page.drawing import Numbers
from ddpcheck.render.training import training_lines

KINDS = ("loss", "norm", "gradient", "weights")
PARITY_HEADERS = ("strategy", "result", "mesh", "options", "precision", *KINDS)
SCALING_HEADERS = (
    *("strategy", "mesh", "bucket", "ranks", "tokens/s", "speed-up", "efficiency"),
    *("communication", "state a rank", "peak a rank"),
)
UNKNOWN = "-"
LEFT_OUT = "skip"


def lines_of(training: Mapping[str, Any]) -> list[str]:
    """Return a few lines on the training, without what stands in the tables."""
    return training_lines({name: training[name] for name in training if name != "parity"})


def parity_table(training: Mapping[str, Any]) -> Numbers | None:
    """Return a row for each strategy that was compared with one process, None for no comparison."""
    compared = [row for row in rows(training.get("parity")) if row.get("result") != LEFT_OUT]
    return Numbers(PARITY_HEADERS, [_parity(row) for row in compared]) if compared else None


def parity_notes(training: Mapping[str, Any]) -> list[str]:
    """Return why strategies failed the comparison, or were left out of it."""
    told = [(row, _why(row)) for row in rows(training.get("parity"))]
    return [f"{_text(row.get('result'))}: {_named(row)}: {why}" for row, why in told if why]


def scaling_table(training: Mapping[str, Any]) -> Numbers | None:
    """Return a row for each strategy on so many ranks, None where scaling was not measured."""
    cells = [_scaling(row) for row in rows(_scaling_of(training).get("rows"))]
    return Numbers(SCALING_HEADERS, cells) if cells else None


def scaling_advice(training: Mapping[str, Any]) -> list[str]:
    """Return what the figures of scaling speak for, and what of it did not fit these ranks."""
    told = _scaling_of(training)
    recommended = told.get("recommended")
    advice = recommended.items() if isinstance(recommended, Mapping) else ()
    return [
        *(
            f"{name}: {each.get('value')} ({each.get('reason')})"
            for name, each in advice
            if isinstance(each, Mapping)
        ),
        *(
            f"left out: {each.get('strategy')}: {each.get('reason')}"
            for each in rows(told.get("left_out"))
        ),
    ]


def _scaling_of(training: Mapping[str, Any]) -> Mapping[str, Any]:
    scaling = training.get("scaling")
    return scaling if isinstance(scaling, Mapping) else {}


def _parity(row: Mapping[str, Any]) -> list[str]:
    worst = row.get("worst")
    known = worst if isinstance(worst, Mapping) else {}
    names = [_text(row.get(key)) for key in ("strategy", "result", "mesh")]
    differences = [_difference(known.get(kind)) for kind in KINDS]
    return [*names, _options(row) or UNKNOWN, _text(row.get("precision")), *differences]


def _named(row: Mapping[str, Any]) -> str:
    names = [_text(row.get(key), "") for key in ("strategy", "mesh")]
    return " ".join(filter(None, [*names, _options(row)]))


def _options(row: Mapping[str, Any]) -> str:
    options = row.get("options")
    return as_options(options) if isinstance(options, Mapping) else ""


def _difference(each: Any) -> str:
    """Return how far off it was, beside how far it may be."""
    told: Mapping[str, Any] = each if isinstance(each, Mapping) else {}
    relative, bound = number(told.get("relative")), number(told.get("bound"))
    if relative is None or bound is None:
        return UNKNOWN
    return f"{relative:.1e} {'≤' if relative <= bound else '>'} {bound:.1e}"


def _why(row: Mapping[str, Any]) -> str:
    broken, suspect = row.get("broken"), row.get("suspect")
    told = [_text(row.get("reason"), "")]
    if isinstance(broken, Mapping):
        told.append(
            f"{_text(broken.get('kind'))} {_text(broken.get('name'), '')} "
            f"at step {_text(broken.get('step'))}"
        )
    if isinstance(suspect, Mapping):
        told.append(f"farthest off {_text(suspect.get('name'))}")
    return ", ".join(filter(None, told))


def _scaling(row: Mapping[str, Any]) -> list[str]:
    bucket = number(row.get("bucket_cap_mb"))
    return [
        *(_text(row.get(key)) for key in ("strategy", "mesh")),
        UNKNOWN if bucket is None else f"{bucket:g} MiB",
        _text(row.get("ranks")),
        _shown(row.get("tokens_per_s"), "{:,.0f}"),
        _shown(row.get("speed_up"), "{:.2f}"),
        _shown(row.get("efficiency"), "{:.0%}"),
        _shown(row.get("communication"), "{:.0%}"),
        _largest(row.get("state_bytes")),
        _largest(row.get("peak_bytes")),
    ]


def _largest(sizes: Any) -> str:
    known: Sequence[Any] = sizes if isinstance(sizes, list) else ()
    found = [each for value in known if (each := number(value)) is not None]
    return size(max(found)) if found else UNKNOWN


def _shown(value: Any, pattern: str) -> str:
    found = number(value)
    return UNKNOWN if found is None else pattern.format(found)


def _text(value: Any, nothing: str = UNKNOWN) -> str:
    return nothing if value in (None, "") else str(value)
