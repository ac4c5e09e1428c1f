"""The cause in one line: for a drain reason, a commit status, the subject of a mail."""

from __future__ import annotations

from ddpcheck.render.comparison import worse_sentences
from ddpcheck.render.gone import chief_finding, gone_ranks
from ddpcheck.render.words import (
    clipped,
    detail,
    host_of,
    one_line,
    verdict_line,
    where,
    worse_than_before,
)
from ddpcheck.report import CheckOutcome, Report

# Slurm's reasons, and titles of messages, are longer in no tool that shows them whole.
LONGEST = 200


def render(report: Report, path: str = "") -> str:
    """Return the worst finding with its ranks and hosts, or what became of a rank, or the verdict."""
    del path  # a line has no room for it
    return clipped(_cause(report), LONGEST) + "\n"


def _cause(report: Report) -> str:
    hosts = host_of(report)
    if finding := chief_finding(report):
        told = one_line(clipped(f"{finding.id}: {finding.title}", LONGEST))
        return f"{told} ({where(finding.ranks, hosts)})"
    for gone in gone_ranks(report)[:1]:
        reason = one_line(clipped(gone.reason, LONGEST))
        return f"{where(gone.ranks, hosts)} {gone.outcome}: {reason}"
    for check in report.checks:
        if check.outcome is CheckOutcome.ERROR:
            return one_line(f"{check.id} raised an error of its own: {detail(check)}")
    if report.changes and (worse := worse_sentences(report.changes)):
        return f"{worse_than_before(report)}: {worse[0]}"
    return verdict_line(report)
