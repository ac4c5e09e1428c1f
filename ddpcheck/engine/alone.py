"""The report of a rank that cannot meet the others, or does not know where."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from datetime import timedelta

from ddpcheck.check import Check, Context, Meeting, Stage
from ddpcheck.engine.assembly import Ranks, build_report, judge_testimonies
from ddpcheck.engine.entries import Entry
from ddpcheck.engine.group import presence
from ddpcheck.engine.judging import Judgement, judge_check, not_run
from ddpcheck.engine.leader import Task
from ddpcheck.engine.neighbours import machine
from ddpcheck.engine.probing import outcome_of
from ddpcheck.engine.roll import described
from ddpcheck.engine.rundir import keep_report, make_run_dir
from ddpcheck.errors import LaunchError, MeetingError, ReportError, UsageError
from ddpcheck.launch.identity import Identity
from ddpcheck.measures.testimony import Testimony

NOT_MET = "the ranks cannot meet"


def report_alone(task: Task, error: UsageError | LaunchError) -> None:
    """Write and show a report in which nobody but this rank came, and why."""
    present = presence(task.who, task.settings.backend)
    run = described(task.run_id, task.settings, task.who, [present])
    judgements = [_judged(check, task, error) for check in task.last_words if not check.is_inquest]
    testimonies = {task.who.rank: Testimony()}
    judgements += judge_testimonies(task.last_words, testimonies)
    entries: dict[int, list[Entry]] = {task.who.rank: [present]}
    absent = [rank for rank in range(task.who.world_size) if rank != task.who.rank]
    ranks = Ranks(entries, testimonies, absent, "was not met")
    report = build_report(run, judgements, ranks)
    with suppress(ReportError):
        run_dir = make_run_dir(task.settings.report_dir, task.run_id)
        task.on_report(report, keep_report(report, run_dir))


def place_of(who: Identity) -> str:
    """Return where the ranks of a job meet."""
    return f"{who.master_addr}:{who.master_port}"


def _meeting(task: Task, error: UsageError | LaunchError) -> Meeting | None:
    """Return how meeting went; None when this rank, who does not know who it is, has not tried."""
    if not isinstance(error, LaunchError):
        return None
    took_s = round(time.monotonic() - task.began, 4)
    kind, owner = (error.kind, error.owner) if isinstance(error, MeetingError) else ("", "")
    return Meeting(place_of(task.who), took_s, str(error), kind=kind, owner=owner)


def _judged(check: Check, task: Task, error: UsageError | LaunchError) -> Judgement:
    if check.stage is not Stage.LAUNCH:
        return not_run(check, NOT_MET)
    who = task.who
    context = Context(
        rank=who.rank,
        local_rank=who.local_rank,
        world_size=who.world_size,
        environ=dict(os.environ),
        host=who.host,
        backend=task.settings.backend,
        device="cpu",
        profile=task.settings.profile,
        clock=time.perf_counter,
        timeout=timedelta(seconds=task.deadline_s),
        machine=machine(),
        meeting=_meeting(task, error),
    )
    return judge_check(check, {who.rank: [outcome_of(check, context)]})
