"""What is judged where ranks, or the hosts that are to start them, could not meet."""

from __future__ import annotations

import time
from collections.abc import Iterable

from ddpcheck.check import Check, Context, Meeting, Stage
from ddpcheck.engine.judging import Judgement, judge_check, not_run
from ddpcheck.engine.probing import outcome_of
from ddpcheck.errors import LaunchError

NOT_MET = "the ranks cannot meet"


def failed_meeting(place: str, began: float, error: LaunchError) -> Meeting:
    """Return how meeting failed that began at a time of the monotonic clock."""
    took_s = round(time.monotonic() - began, 4)
    return Meeting(place, took_s, str(error), kind=error.kind, owner=error.owner)


def judged_unmet(check: Check, context: Context, ranks: Iterable[int]) -> Judgement:
    """Return what a check says of these ranks; those after the launch have nothing to measure."""
    if check.stage is not Stage.LAUNCH:
        return not_run(check, NOT_MET)
    entry = outcome_of(check, context)
    return judge_check(check, {rank: [entry] for rank in ranks})
