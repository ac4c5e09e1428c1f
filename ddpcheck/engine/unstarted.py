"""The report of a host that cannot meet the other hosts: its ranks were never started.

It is the parent's, which must do without torch.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from importlib import metadata
from pathlib import Path

from ddpcheck.check import Context, Meeting
from ddpcheck.engine.assembly import Ranks, build_report, judge_testimonies
from ddpcheck.engine.chosen import chosen
from ddpcheck.engine.entries import Entry, Present
from ddpcheck.engine.rundir import keep_report, make_run_dir, new_run_id
from ddpcheck.engine.unmet import failed_meeting, judged_unmet
from ddpcheck.errors import LaunchError, ReportError
from ddpcheck.launch.gpus import visible_gpus
from ddpcheck.launch.nodes import place_of
from ddpcheck.measures.testimony import Testimony
from ddpcheck.report import Report, Run
from ddpcheck.settings import LaunchOptions, RunSettings

LAUNCHER = "ddpcheck"


def report_unstarted(
    settings: RunSettings,
    options: LaunchOptions,
    error: LaunchError,
    began: float,
    on_report: Callable[[Report, Path], None],
) -> None:
    """Write and show a report that says why this host's share of the ranks was not started.

    ``options`` say how many ranks this host has; ``began``: when it was tried, on the monotonic
    clock.
    """
    nproc = options.nproc_per_node or 1
    meeting = failed_meeting(str(place_of(options)), began, error)
    present = {
        seat: _present(seat, options.nnodes, nproc) for seat in _seats(options.node_rank, nproc)
    }
    guilty = [seat for node in error.missing for seat in _seats(node, nproc)] or list(present)
    context = _context(settings, present[min(present)], meeting)
    checks = chosen(settings)
    judgements = [judged_unmet(each, context, guilty) for each in checks if not each.is_inquest]
    judgements += judge_testimonies(checks, {})  # ranks that never ran came through nothing
    run = _described(settings, list(present.values()))
    absent = [rank for rank in range(run.requested_world_size) if rank not in present]
    entries: dict[int, list[Entry]] = {seat: [each] for seat, each in present.items()}
    testimonies = {seat: Testimony() for seat in present}
    report = build_report(run, judgements, Ranks(entries, testimonies, absent, "was not met"))
    with suppress(ReportError):
        run_dir = make_run_dir(settings.report_dir, run.id)
        on_report(report, keep_report(report, run_dir))


def _seats(node: int, nproc: int) -> range:
    return range(node * nproc, (node + 1) * nproc)


def _present(seat: int, nnodes: int, nproc: int) -> Present:
    return Present(
        rank=seat,
        local_rank=seat % nproc,
        world_size=nnodes * nproc,
        host=socket.gethostname(),
        pid=os.getpid(),
        gpus=visible_gpus(os.environ),
        backend="",
        launcher=LAUNCHER,
        versions={"python": sys.version.split()[0], "torch": metadata.version("torch")},
    )


def _context(settings: RunSettings, first: Present, meeting: Meeting) -> Context:
    """Return what the first of the ranks would have probed with, of which there is no more."""
    return Context(
        rank=first.rank,
        local_rank=first.local_rank,
        world_size=first.world_size,
        environ={},
        host=first.host,
        backend=settings.backend,
        device="cpu",
        profile=settings.profile,
        clock=time.perf_counter,
        timeout=timedelta(seconds=settings.deadline_s),
        meeting=meeting,
    )


def _described(settings: RunSettings, present: Sequence[Present]) -> Run:
    auto = "nccl" if present[0].gpus else "gloo"
    return Run(
        id=new_run_id(),
        command=settings.command,
        launcher=LAUNCHER,
        backend=auto if settings.backend == "auto" else settings.backend,
        profile=settings.profile.value,
        requested_world_size=present[0].world_size,
        world_size=len(present),
        hosts=[present[0].host],
        started_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        duration_s=0.0,
        versions=present[0].versions,
        target=settings.target,
        configuration=settings.configuration if settings.configuration.file else None,
    )
