"""The report of a rank that cannot meet the others, or does not know where."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from datetime import timedelta

from ddpcheck.check import Context
from ddpcheck.engine.assembly import Ranks, build_report, judge_testimonies
from ddpcheck.engine.entries import Entry
from ddpcheck.engine.group import presence
from ddpcheck.engine.leader import Task
from ddpcheck.engine.neighbours import machine
from ddpcheck.engine.roll import described
from ddpcheck.engine.rundir import keep_report, make_run_dir
from ddpcheck.engine.unmet import failed_meeting, judged_unmet
from ddpcheck.errors import LaunchError, ReportError, UsageError
from ddpcheck.launch.identity import Identity
from ddpcheck.measures.testimony import Testimony


def report_alone(task: Task, error: UsageError | LaunchError) -> None:
    """Write and show a report in which nobody but this rank came, and why."""
    present = presence(task.who, task.settings.backend)
    run = described(task.run_id, task.settings, task.who, [present])
    context, own = _context(task, error), [task.who.rank]
    measuring = [check for check in task.last_words if not check.is_inquest]
    judgements = [judged_unmet(check, context, own) for check in measuring]
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


def _context(task: Task, error: UsageError | LaunchError) -> Context:
    who = task.who
    # Who does not know who it is has not tried to meet anybody.
    tried = error if isinstance(error, LaunchError) else None
    return Context(
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
        meeting=failed_meeting(place_of(who), task.began, tried) if tried else None,
    )
