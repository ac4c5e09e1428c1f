"""The report as JSON, byte for byte what ``report.json`` holds."""

from ddpcheck.report import Report, to_json


def render(report: Report, _path: str = "") -> str:
    """Return the report as indented JSON."""
    return to_json(report).decode()
