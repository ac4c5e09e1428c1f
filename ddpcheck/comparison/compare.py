"""All that changed from one report to another."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ddpcheck.change import Change, Comparison
from ddpcheck.comparison.both import Both, Told
from ddpcheck.comparison.findings import check_changes, finding_changes
from ddpcheck.comparison.machine import machine_changes, run_changes
from ddpcheck.comparison.outcomes import rank_changes, verdict_changes
from ddpcheck.comparison.speed import collective_changes, computing_changes, step_changes
from ddpcheck.comparison.training import training_changes
from ddpcheck.measures.words import listed
from ddpcheck.report import Report

PARTS: tuple[Callable[[Both], Told], ...] = (
    *(verdict_changes, rank_changes, finding_changes, check_changes),
    *(collective_changes, step_changes, computing_changes, training_changes),
    *(machine_changes, run_changes),
)


def compare(old: Report, new: Report, bound_ratio: float) -> Comparison:
    """Return what changed, the worst first.

    ``bound_ratio`` is what may be lost of a speed, as a part of 1, before that counts as worse; it
    must be beyond the noise of both runs, too.
    """
    both = Both(old, new, bound_ratio)
    told = [part(both) for part in PARTS]
    return Comparison(
        before=old.run.id,
        now=new.run.id,
        bound_ratio=bound_ratio,
        changes=sorted((change for each in told for change in each.changes), key=_worst_first),
        left_out=[*_thinned(old, new), *(why for each in told for why in each.left_out)],
    )


def _thinned(old: Report, new: Report) -> Iterator[str]:
    """Yield what is compared over a part of the ranks alone: those whose facts a report has."""
    for name, report in (("the baseline", old), ("this report", new)):
        if report.facts_left_out:
            yield f"facts that {name} has of some ranks alone: {listed(report.facts_left_out)}"


def _worst_first(change: Change) -> tuple[int, int, float]:
    return change.course.order, change.part.order, -abs(change.ratio or 0.0)
