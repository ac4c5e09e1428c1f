"""What a run changed against the baseline that was given to it."""

from __future__ import annotations

from msgspec.structs import replace

from ddpcheck.change import Comparison
from ddpcheck.comparison.compare import compare
from ddpcheck.engine.loading import loaded
from ddpcheck.errors import ReportError
from ddpcheck.report import Report
from ddpcheck.secrecy.redaction import redacted
from ddpcheck.settings import RunSettings


def against_baseline(report: Report, settings: RunSettings) -> Report:
    """Return the report with what changed against the baseline, or as it is where none was given.

    A leader on another host may not find the file: the report then says so.
    """
    if not settings.baseline:
        return report
    bound_ratio = settings.baseline_bound_ratio
    try:
        before = loaded(settings.baseline)
    except ReportError as error:
        missed = Comparison(
            before=settings.baseline,
            now=report.run.id,
            bound_ratio=bound_ratio,
            left_out=[f"anything: {error}"],
        )
        return replace(report, changes=redacted(missed))
    return replace(report, changes=redacted(compare(before, report, bound_ratio)))
