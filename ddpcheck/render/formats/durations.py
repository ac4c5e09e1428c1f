"""The report for a terminal, with what the run spent its seconds on before the verdict."""

from ddpcheck.render.durations import duration_lines
from ddpcheck.render.formats import text
from ddpcheck.report import Report


def render(report: Report, path: str = "") -> str:
    """Return the report as ``text`` has it, with one more section."""
    *told, verdict = text.sections(report, path)
    return text.joined([*told, text.beside_seconds(duration_lines(report)), verdict])
