"""The leader: calls the roll, gathers stage by stage, judges, writes the report."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ddpcheck.check import Stage
from ddpcheck.engine.assembly import build_report
from ddpcheck.engine.channel import ENDED, Assignment, Channel, Decision, End
from ddpcheck.engine.entries import Entry, Present, Refused
from ddpcheck.engine.judging import Judgement, judge_check, not_run
from ddpcheck.engine.plan import Step, probe_deadline_s
from ddpcheck.engine.rundir import discard, make_run_dir, note_start, point_latest_to
from ddpcheck.errors import ExitCode, ReportError
from ddpcheck.finding import Severity
from ddpcheck.launch.identity import Identity
from ddpcheck.report import Report, Run, exit_code_of, write_report
from ddpcheck.settings import RunSettings

OnReport = Callable[[Report, Path], None]

POLL_S = 1.0
# Once one rank's sentinel says that its check overran, the others have this long to say so too.
SETTLE_S = 1.5


@dataclass(frozen=True)
class Task:
    """What there is to lead; ``on_report`` shows the report, once."""

    who: Identity
    settings: RunSettings
    steps: Sequence[Step]
    run_id: str
    on_report: OnReport


class Leader:
    """Runs beside the leading rank's own work, so that a rank that hangs still reports."""

    def __init__(self, new_channel: Callable[[], Channel], task: Task) -> None:
        self._thread = threading.Thread(target=self._run, name="ddpcheck leader", daemon=True)
        self._new_channel = new_channel
        self._task = task
        self._who = task.who
        self._settings = task.settings
        self._deadline_s = probe_deadline_s(
            task.settings.deadline_s, task.settings.profile, task.who.world_size
        )
        self._began = time.monotonic()
        self._entries: dict[int, list[Entry]] = {}
        self._gone: dict[int, str] = {}
        self._absent: list[int] = []
        self._complete = False
        self._judgements: list[Judgement] = []

    def start(self) -> None:
        """Lead in a thread of its own, on a channel of its own."""
        self._channel = self._new_channel()
        self._thread.start()

    def join(self) -> None:
        """Wait until the run is led to its end, if this process leads it."""
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        try:
            self._lead()
        finally:
            # Whatever went wrong here, nobody must be left waiting for a verdict.
            if not self._channel.has(ENDED):
                self._channel.announce(ENDED, End(ExitCode.INTERNAL))

    def _lead(self) -> None:
        members = self._call_roll()
        refusal = _refusal(members, self._settings)
        try:
            run_dir = make_run_dir(self._settings.report_dir, self._task.run_id)
        except ReportError as error:
            self._refuse(str(error))
            return
        if refusal:
            discard(run_dir)
            self._refuse(refusal)
            return
        run = self._seat(members, run_dir)
        refusal = self._lead_stages()
        if refusal:
            discard(run_dir)
            self._refuse(refusal)
            return
        self._finish(run, run_dir)

    def _call_roll(self) -> list[Present]:
        keys = [f"member/{member}" for member in range(self._who.world_size)]
        self._channel.poll(keys, self._deadline_s)
        # More may come than were asked for: two processes with one RANK, say.
        keys += [f"member/{len(keys) + extra}" for extra in range(len(keys))]
        here = [key for key in keys if self._channel.has(key)]
        told = self._channel.read(here)
        return [entry for entries in told for entry in entries if isinstance(entry, Present)]

    def _seat(self, members: Sequence[Present], run_dir: Path) -> Run:
        seats = seats_of([member.rank for member in members], self._who.world_size)
        self._entries = {
            seat: [member] for seat, member in sorted(zip(seats, members, strict=True))
        }
        run = self._describe(members)
        note_start(run, run_dir)
        claimed = [member.rank for member in members]
        self._absent = sorted(set(range(self._who.world_size)) - set(claimed))
        self._complete = sorted(claimed) == list(range(self._who.world_size))
        assignment = Assignment(
            run_id=self._task.run_id,
            run_dir=str(run_dir),
            backend=run.backend,
            seats=seats,
            deadline_s=self._deadline_s,
            complete=self._complete,
        )
        self._channel.announce("assignment", assignment)
        return run

    def _describe(self, members: Sequence[Present]) -> Run:
        asked = self._settings.backend
        has_gpus = all(member.gpus for member in members)
        backend = asked if asked != "auto" else "nccl" if has_gpus else "gloo"
        leading = next(member for member in members if member.rank == self._who.rank)
        return Run(
            id=self._task.run_id,
            command=self._settings.command,
            launcher=self._who.launcher,
            backend=backend,
            profile=self._settings.profile.value,
            requested_world_size=self._who.world_size,
            world_size=len(members),
            hosts=list(dict.fromkeys(member.host for member in members)),
            started_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            duration_s=0.0,
            versions=leading.versions,
            target=self._settings.target,
        )

    def _lead_stages(self) -> str:
        """Gather and judge each stage; return why the user's request is refused, or ''."""
        stop = ""
        for step in self._task.steps:
            if not self._complete and step.stage is not Stage.LAUNCH:
                stop = stop or "the processes that came do not make up the job"
            if stop:
                self._judgements += [not_run(check, stop) for check in step.checks]
                continue
            started = time.monotonic()
            told = self._gather(step)
            refusals = [e.message for each in told.values() for e in each if isinstance(e, Refused)]
            if refusals:
                self._channel.announce(f"decision/{step.stage.value}", Decision(go=False))
                return refusals[0]
            judged = [judge_check(check, told) for check in step.checks]
            self._judgements += judged
            stop = self._reason_to_stop(step, judged)
            _show_progress(step, judged, len(told), len(self._entries), time.monotonic() - started)
            self._channel.announce(f"decision/{step.stage.value}", Decision(go=not stop))
        return ""

    def _gather(self, step: Step) -> dict[int, list[Entry]]:
        keys = {seat: f"{step.stage.value}/{seat}" for seat in self._entries}
        self._await(list(keys.values()), step)
        here = {seat: key for seat, key in keys.items() if self._channel.has(key)}
        told = dict(zip(here, self._channel.read(list(here.values())), strict=True))
        stuck = self._channel.stuck(set(keys) - set(here)) if len(here) < len(keys) else {}
        for seat, so_far in self._entries.items():
            so_far.extend(told.get(seat, []))
            if seat not in told:
                so_far.extend([stuck[seat]] if seat in stuck else [])
                self._gone[seat] = "overran its deadline" if seat in stuck else "fell silent"
        return told

    def _await(self, keys: Sequence[str], step: Step) -> None:
        until = time.monotonic() + step.deadline_s(self._deadline_s) + SETTLE_S
        while not self._channel.poll(keys, POLL_S):
            if self._channel.stuck(self._entries):
                self._channel.poll(keys, SETTLE_S)
                return
            if time.monotonic() > until:
                return

    def _reason_to_stop(self, step: Step, judged: Sequence[Judgement]) -> str:
        if self._absent:
            return f"not all ranks came: no rank {_listed(self._absent)}"
        if self._gone:
            return f"the run ended in stage {step.stage.value}: no word from {_listed(self._gone)}"
        bad = [each.record.id for each in judged if each.has_error or each.crashed_ranks]
        return f"{bad[0]} failed" if step.stage.gates and bad else ""

    def _finish(self, run: Run, run_dir: Path) -> None:
        took_s = round(time.monotonic() - self._began, 3)
        run = msgspec.structs.replace(run, duration_s=took_s)
        report = build_report(run, self._judgements, self._entries, self._gone, self._absent)
        code = exit_code_of(report, self._settings.fail_on)
        try:
            path = write_report(report, run_dir)
            point_latest_to(run_dir)
        except ReportError as error:
            sys.stderr.write(f"ddpcheck: {error}\n")
            path = run_dir
        self._task.on_report(report, path)
        self._channel.announce(ENDED, End(code))

    def _refuse(self, message: str) -> None:
        sys.stderr.write(f"ddpcheck: {message}\n")
        sys.stderr.flush()
        self._channel.announce(ENDED, End(ExitCode.USAGE))


def seats_of(claimed: Sequence[int], world_size: int) -> list[int]:
    """Return each member's seat: the rank it claims, or, when claims clash, its place.

    ``claimed`` is in the order of arrival. Claims clash when two are equal or one lies
    outside 0 to ``world_size`` - 1; places then follow the claims, then the arrival.
    """
    if len(set(claimed)) == len(claimed) and all(rank < world_size for rank in claimed):
        return list(claimed)
    order = sorted(range(len(claimed)), key=lambda member: (claimed[member], member))
    return [order.index(member) for member in range(len(claimed))]


def _listed(ranks: Iterable[int]) -> str:
    return ", ".join(str(rank) for rank in sorted(ranks))


def _refusal(members: Sequence[Present], settings: RunSettings) -> str:
    blind = [member for member in members if not member.gpus]
    if settings.backend == "nccl" and blind:
        first = blind[0]
        return (
            f"--backend nccl: rank {first.rank} on {first.host} sees no GPU; "
            "use --backend gloo, or run where torch sees a GPU"
        )
    return ""


def _show_progress(
    step: Step, judged: Sequence[Judgement], told: int, asked: int, took_s: float
) -> None:
    findings = [finding for judgement in judged for finding in judgement.findings]
    counts = [
        f"{number} {severity.value}{'s' * (number > 1)}"
        for severity in (Severity.ERROR, Severity.WARNING)
        if (number := sum(finding.severity is severity for finding in findings))
    ]
    line = f"  {step.stage.value:<12} {told}/{asked}  {took_s:.1f} s  {', '.join(counts)}"
    sys.stderr.write(line.rstrip() + "\n")
    sys.stderr.flush()
