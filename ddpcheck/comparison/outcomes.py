"""The verdict, and how the ranks came through: whether fewer of them did."""

from __future__ import annotations

from collections.abc import Iterator

from ddpcheck.change import Change, Course, Part
from ddpcheck.comparison.both import Both, Told, grouped
from ddpcheck.measures.words import ranks_told
from ddpcheck.report import RankOutcome, Report, Verdict


def verdict_changes(both: Both) -> Told:
    """Return the change of the verdict, if it is another one."""
    old, new = both.old.verdict, both.new.verdict
    order = tuple(Verdict)
    if old is new:
        return Told()
    course = Course.WORSE if order.index(new) > order.index(old) else Course.BETTER
    return Told(
        [Change(part=Part.VERDICT, what="verdict", before=old, now=new, course=course)],
    )


def rank_changes(both: Both) -> Told:
    """Return which ranks came through in another way, or are not there any more."""
    return Told([*_counts(both), *_outcomes(both)])


def _counts(both: Both) -> Iterator[Change]:
    """Yield other numbers of ranks: fewer than asked for are worse, other wishes are not."""
    old, new = both.old.run, both.new.run
    if old.requested_world_size != new.requested_world_size:
        yield Change(
            part=Part.RANKS,
            what="ranks asked for",
            before=str(old.requested_world_size),
            now=str(new.requested_world_size),
        )
    missing = [run.requested_world_size - run.world_size for run in (old, new)]
    if missing[0] != missing[1]:
        worse = missing[1] > missing[0]
        yield Change(
            part=Part.RANKS,
            what="ranks that came",
            before=f"{old.world_size} of {old.requested_world_size}",
            now=f"{new.world_size} of {new.requested_world_size}",
            course=Course.WORSE if worse else Course.BETTER,
        )


def _outcomes(both: Both) -> Iterator[Change]:
    old, new = _by_rank(both.old), _by_rank(both.new)
    pairs = {rank: (old[rank], new[rank]) for rank in old.keys() & new.keys()}
    changed = {rank: pair for rank, pair in pairs.items() if pair[0] != pair[1]}
    order = [outcome.value for outcome in RankOutcome]
    for (before, now), ranks in grouped(changed).items():
        worse = order.index(now) > order.index(before)
        yield Change(
            part=Part.RANKS,
            what=ranks_told(ranks),
            before=before,
            now=now,
            course=Course.WORSE if worse else Course.BETTER,
            ranks=ranks,
            note=_reason(both.new if worse else both.old, ranks[0]),
        )


def _by_rank(report: Report) -> dict[int, str]:
    return {record.rank: record.outcome.value for record in report.ranks}


def _reason(report: Report, rank: int) -> str:
    return next((record.reason for record in report.ranks if record.rank == rank), "")
