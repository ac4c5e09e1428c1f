"""The commands: from settings to an exit code. None of them imports torch by itself."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ddpcheck.catalogue import catalogue, check_named, has_plug_ins, select
from ddpcheck.engine.aftermath import Aftermath
from ddpcheck.engine.against import against_baseline
from ddpcheck.engine.assembly import RUN_NAME, assemble
from ddpcheck.engine.chosen import chosen
from ddpcheck.engine.loading import loaded
from ddpcheck.engine.plan import probe_deadline_s, silence_s
from ddpcheck.engine.rundir import (
    discard,
    hide_in_stacks,
    is_stopped,
    keep_report,
    make_run_dir,
    new_run_id,
    spare_dir,
)
from ddpcheck.errors import ExitCode, LaunchError, UsageError
from ddpcheck.launch.gpus import visible_gpus
from ddpcheck.launch.identity import require_one_rank, require_whole_job, started_by_launcher
from ddpcheck.launch.own_ranks import STARTS_OWN, starts_own_ranks
from ddpcheck.measures.words import counted
from ddpcheck.ranks import (
    LocalRun,
    Printer,
    run_as_rank,
    run_in_rank,
    run_script_alone,
    train_as_rank,
    train_in_rank,
)
from ddpcheck.report import (
    REPORT_NAME,
    exit_code_of,
    facts_in,
    read_report,
    report_file,
)
from ddpcheck.settings import LaunchOptions, RunSettings, TrainSettings, WatchSettings
from ddpcheck.showing import print_text, show

if TYPE_CHECKING:
    from ddpcheck.launch.local import Departure, Ending

# Without a GPU, two ranks are the fewest that can disagree.
CPU_RANKS = 2
# A step, and a checkpoint: as long as torchrun gives ranks that it has asked to end.
STOP_S = 30.0
# What shells add to the number of the signal that ended a process.
SIGNALLED = 128


def run(settings: RunSettings, options: LaunchOptions, argv: Sequence[str]) -> int:
    """Carry out ``ddpcheck run``: as one rank inside a launcher, or start the ranks."""
    if settings.select or settings.skip or has_plug_ins():
        # A wrong name, or a broken plug-in, is told at once.
        select(catalogue(), settings.select, settings.skip)
    if started_by_launcher(os.environ):
        require_one_rank(os.environ, options.nproc_per_node)
        return run_as_rank(settings)
    require_whole_job(os.environ)
    facts_in(settings.baseline)  # what cannot be read is better told before torch is imported
    nproc = ranks_to_start(options, settings.backend)
    if options.nnodes > 1:
        return _run_on_nodes(settings, options, nproc, argv)
    return _run_alone(settings, nproc)


def watch(settings: WatchSettings, options: LaunchOptions, argv: Sequence[str]) -> int:
    """Carry out ``ddpcheck watch``: as one rank inside a launcher, or start the ranks."""
    from ddpcheck.watch.script import require_script

    checks = select(catalogue(), settings.select, settings.skip)
    if not any(check.is_observer for check in checks):
        raise UsageError(
            "--select and --skip leave no check that looks on at a training: 'ddpcheck list' shows "
            "which do, in the families gradients, buffers, data, checkpoint, memory, sharding"
        )
    require_script(settings.script, is_module=settings.is_module)
    facts_in(settings.baseline)
    if started_by_launcher(os.environ):
        require_one_rank(os.environ, options.nproc_per_node)
        return run_as_rank(settings)
    require_whole_job(os.environ)
    told = options.nproc_per_node is not None or options.nnodes > 1
    if not told and starts_own_ranks(settings.script, is_module=settings.is_module):
        return _run_alone(settings, 0)
    nproc = ranks_to_start(options, settings.backend)
    if options.nnodes > 1:
        return _run_on_nodes(settings, options, nproc, argv)
    return _run_alone(settings, nproc)


def train(settings: TrainSettings, options: LaunchOptions, argv: Sequence[str]) -> int:
    """Carry out ``ddpcheck train``: as one rank inside a launcher, or start the ranks."""
    if started_by_launcher(os.environ):
        require_one_rank(os.environ, options.nproc_per_node)
        return train_as_rank(settings)
    require_whole_job(os.environ)
    nproc = ranks_to_start(options, settings.backend)
    if options.nnodes > 1:
        from ddpcheck.launch.agent import launch_with_agent

        return launch_with_agent(options, nproc, argv, settings.deadline_s)
    from ddpcheck.launch.local import Patience, launch_local

    read_report(Path(settings.report))  # a missing one is better told before torch is imported
    ending = launch_local(train_in_rank, settings, nproc, Patience(stop_s=STOP_S))
    if ending.stopped_by:
        sys.stderr.write(f"ddpcheck: ended by {ending.stopped_by}\n")
        return ExitCode.INTERRUPTED
    departures = ending.departures
    for departure in departures:
        if departure.exit_code not in set(ExitCode):
            sys.stderr.write(f"ddpcheck: rank {departure.rank}: {departure.ended_by}\n")
    missing = len(departures) < nproc
    known = [d.exit_code for d in departures if d.exit_code in set(ExitCode)]
    worst = max(known, default=ExitCode.INTERNAL)
    return ExitCode.INCOMPLETE if missing or len(known) < nproc else worst


def report(
    path: str, fmt: str, output: str = "", *, rejudge: bool = False, anonymize: bool = False
) -> int:
    """Carry out ``ddpcheck report``: render a report, or what a crash left of one."""
    shown = loaded(path)
    if rejudge:
        from ddpcheck.engine.rejudging import rejudged

        shown = rejudged(shown, catalogue())
    if anonymize:
        from ddpcheck.anonymity.anonymize import anonymized

        shown = anonymized(shown)
    file = report_file(Path(path))
    place = file if file.is_file() else Path(path)
    show(shown, fmt, None if anonymize else place, output)
    return ExitCode.OK


def diff(old: str, new: str, fmt: str, bound_ratio: float) -> int:
    """Carry out ``ddpcheck diff``: what changed from one report to another; 1 where it is worse."""
    from ddpcheck.comparison.compare import compare
    from ddpcheck.render.comparison import render_comparison

    before, now = loaded(old), loaded(new)
    told = compare(before, now, bound_ratio)
    print_text(render_comparison(told, fmt, before, now))
    return ExitCode.FINDINGS if told.is_worse else ExitCode.OK


def list_checks() -> int:
    """Carry out ``ddpcheck list``."""
    from ddpcheck.render.manual import list_text

    print_text(list_text(catalogue()))
    return ExitCode.OK


def explain(check_id: str) -> int:
    """Carry out ``ddpcheck explain``."""
    from ddpcheck.render.manual import explain_text
    from ddpcheck.thresholds import thresholds_of

    check = check_named(check_id)
    print_text(explain_text(check, thresholds_of(check)))
    return ExitCode.OK


def new(check_id: str, package: str) -> int:
    """Carry out ``ddpcheck new``, in the working directory."""
    from ddpcheck.new_check import told, write_new_check

    print_text(told(write_new_check(check_id, package, Path())))
    return ExitCode.OK


def ranks_to_start(options: LaunchOptions, backend: str) -> int:
    """Return how many local ranks to start: one a GPU, or two on a CPU machine.

    Raises UsageError when NCCL is asked for with fewer GPUs than ranks.
    """
    gpus = visible_gpus(os.environ) if backend != "gloo" else 0
    if backend == "nccl" and not gpus:
        raise UsageError(
            "--backend nccl: this machine has no GPU that ddpcheck can see; "
            "use --backend gloo, or check nvidia-smi and CUDA_VISIBLE_DEVICES"
        )
    nproc = options.nproc_per_node or gpus or CPU_RANKS
    if gpus and nproc > gpus:
        raise UsageError(
            f"--nproc-per-node {nproc}: {counted(gpus, 'GPU')} can be seen, and NCCL needs one "
            f"a rank; use --nproc-per-node {gpus}, or --backend gloo"
        )
    return nproc


def _run_on_nodes(
    settings: RunSettings, options: LaunchOptions, nproc: int, argv: Sequence[str]
) -> int:
    from ddpcheck.launch.agent import launch_with_agent

    began = time.monotonic()
    try:
        return launch_with_agent(options, nproc, argv, settings.deadline_s)
    except LaunchError as error:
        from ddpcheck.engine.unstarted import report_unstarted

        own = replace(options, nproc_per_node=nproc)
        report_unstarted(settings, own, error, began, Printer(settings.format))
        raise


def _run_alone(settings: RunSettings, nproc: int) -> int:
    """Start ``nproc`` local ranks, or, where it is 0, the script, which starts them."""
    from ddpcheck.launch.local import Patience, launch_local, launch_script

    run_id = new_run_id()
    run_dir = make_run_dir(settings.report_dir, run_id)
    deadline_s = probe_deadline_s(settings.deadline_s, settings.profile, nproc)
    job = LocalRun(settings, run_id)
    try:
        # What a script does after the report takes as long as it takes.
        patient = isinstance(settings, WatchSettings)
        if nproc:
            patience = Patience(silence_s(deadline_s), with_the_good=patient)
            ending = launch_local(run_in_rank, job, nproc, patience)
        else:
            ending = launch_script(run_script_alone, job, Aftermath(run_dir))
    except KeyboardInterrupt:
        discard(run_dir)
        raise
    hide_in_stacks(run_dir)
    if any(each.exit_code == STARTS_OWN for each in ending.departures):
        return _run_alone(settings, 0)
    place = next((d for d in (run_dir, spare_dir(run_dir)) if (d / REPORT_NAME).is_file()), None)
    if place is None:
        place = _made_up(settings, run_dir, ending, nproc)
    if ending.stopped_by:
        sys.stderr.write(f"ddpcheck: ended by {ending.stopped_by}\n")
    if place is None:
        return ExitCode.INTERRUPTED if ending.stopped_by else ExitCode.USAGE
    finished = read_report(place)
    show(finished, settings.format, place / REPORT_NAME)
    if ending.interrupted:
        return ExitCode.INTERRUPTED
    code = exit_code_of(finished, settings.fail_on)
    ended = () if is_stopped(run_dir) else ending.departures
    return code or max((_status(each) for each in ended), default=0)


def _status(departure: Departure) -> int:
    """Return a rank's exit code as a shell has it: a script may go on after the report."""
    return departure.exit_code if departure.exit_code >= 0 else SIGNALLED - departure.exit_code


def _made_up(settings: RunSettings, run_dir: Path, ending: Ending, nproc: int) -> Path | None:
    """Assemble the report that no rank wrote; return where it is, or None when it has no place.

    Raises LaunchError when the ranks did not even meet.
    """
    codes = {departure.exit_code for departure in ending.departures}
    if (run_dir / RUN_NAME).is_file():
        # Those that did not leave by themselves have been ended: their files say why.
        by_rank = dict.fromkeys(range(nproc), "")
        by_rank |= {each.rank: each.ended_by for each in ending.departures if nproc}
        made = assemble(run_dir, by_rank, chosen(settings))
        return keep_report(against_baseline(made, settings), run_dir).parent
    if ending.stopped_by or codes <= {ExitCode.USAGE}:
        discard(run_dir)
        return None
    raise LaunchError(
        "no rank came as far as the roll call: "
        + "; ".join(f"rank {each.rank}: {each.ended_by}" for each in ending.departures)
        + f"; their messages stand above, their files in {run_dir}"
    )
