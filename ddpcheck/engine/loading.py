"""A report from wherever the user points: a file, a run directory, or what a crash left of one."""

from __future__ import annotations

from pathlib import Path

from ddpcheck.engine.assembly import assemble
from ddpcheck.report import REPORT_NAME, Report, no_report, read_report
from ddpcheck.secrecy.redaction import redacted


def loaded(path: str) -> Report:
    """Return the report at ``path``, assembled where no rank came to write it.

    Raises ReportError for what is neither.
    """
    place = Path(path)
    if not place.exists():
        raise no_report(path)
    has_report = place.is_file() or (place / REPORT_NAME).is_file()
    # One of an older version may still hold what is hidden today.
    return redacted(read_report(place)) if has_report else assemble(place, {})
