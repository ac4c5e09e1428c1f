"""The training section: what the reference training run showed, in a few lines."""

from collections.abc import Mapping
from typing import Any

from ddpcheck.measures.words import as_options
from ddpcheck.render.measured import rows
from ddpcheck.render.words import one_line

MILLION = 1e6
PERCENT = 100


def training_lines(training: Mapping[str, Any]) -> list[str]:
    """Return a few lines on a training run; what was not measured is left out."""
    lines = [", ".join(_setup(training)), _loss(training), ", ".join(_speed(training))]
    if checkpoint := training.get("checkpoint"):
        lines.append(f"checkpoint {one_line(str(checkpoint))}")
    lines += [_parity(row) for row in rows(training.get("parity"))]
    return [line for line in lines if line]


def _parity(row: Mapping[str, Any]) -> str:
    """Return one line on a strategy that was compared with one process."""
    broken, suspect = row.get("broken") or {}, row.get("suspect") or {}
    known = [
        " ".join(filter(None, (_text(row.get(key), "{}") for key in ("strategy", "mesh")))),
        _text(_options(row.get("options")), "{}"),
        _text(row.get("precision"), "{}"),
        _text(broken.get("kind"), "{}") + _text(broken.get("name"), " of {}"),
        _text(broken.get("step"), "first at step {}"),
        _text(suspect.get("name"), "farthest off {}"),
        _text(row.get("reason"), "{}"),
    ]
    return f"parity {_text(row.get('result'), '{}')}: {', '.join(filter(None, known))}"


def _options(options: Any) -> str:
    return as_options(options) if isinstance(options, Mapping) else ""


def _setup(training: Mapping[str, Any]) -> list[str]:
    known = [
        _text(training.get("strategy"), "{}"),
        _text(training.get("steps"), "{} steps"),
        _text(training.get("global_batch"), "global batch {}"),
        _text(training.get("precision"), "{}"),
        _number(training.get("parameters"), "{:.2f} M parameters", 1 / MILLION),
    ]
    return [text for text in known if text]


def _speed(training: Mapping[str, Any]) -> list[str]:
    known = [
        _number(training.get("tokens_per_s"), "{:,.0f} tokens/s"),
        _number(
            training.get("exposed_comm_share"),
            "{:.1f} % of a step is exposed communication",
            PERCENT,
        ),
        _number(training.get("scaling_efficiency"), "scaling efficiency {:.1f} %", PERCENT),
    ]
    return [text for text in known if text]


def _loss(training: Mapping[str, Any]) -> str:
    losses = _losses(training.get("loss"))
    final = training.get("final_loss", losses[-1] if losses else None)
    told = [_number(loss, "{:.4f}") for loss in (*losses[:1], final)]
    return "loss " + " -> ".join(filter(None, told)) if any(told) else ""


def _losses(curve: Any) -> list[Any]:
    # The section is plain JSON that another version may have written: [[step, loss], ...].
    points: list[Any] = curve if isinstance(curve, list) else []
    return [loss for point in points if isinstance(point, list) for loss in point[1:2]]


def _text(value: Any, pattern: str) -> str:
    return pattern.format(one_line(str(value))) if value not in (None, "") else ""


def _number(value: Any, pattern: str, scale: float = 1) -> str:
    return pattern.format(value * scale) if isinstance(value, int | float) else ""
