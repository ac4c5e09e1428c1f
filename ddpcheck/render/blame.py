"""Which hosts a job is better off without."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ddpcheck.finding import Severity
from ddpcheck.render.words import host_of
from ddpcheck.report import RankOutcome, Report


def bad_hosts(report: Report) -> set[str]:
    """Return the hosts of ranks that are to blame: lost, stalled, or named by an error.

    Ranks that only waited for others are not. An error that names ranks of every host says
    nothing against one of several: it is of the code or of the settings, which move with the job.
    """
    host = host_of(report)
    lost = {host[r.rank] for r in report.ranks if r.outcome.is_gone and r.host}
    every = set(host.values())
    named = [{host[rank] for rank in ranks if rank in host} for ranks in _accused(report)]
    telling = [hosts for hosts in named if hosts != every or len(every) == 1]
    return lost.union(*telling)


def good_hosts(report: Report) -> set[str]:
    """Return the other hosts of the run."""
    return set(host_of(report).values()) - bad_hosts(report)


def _accused(report: Report) -> Iterator[Iterable[int]]:
    yield from (each.ranks for each in report.findings if each.severity is Severity.ERROR)
    failed: dict[str, list[int]] = {}
    for record in report.ranks:
        if record.outcome is RankOutcome.FAILED:
            failed.setdefault(record.reason, []).append(record.rank)
    yield from failed.values()
