"""The leader: calls the roll, gathers stage by stage, judges, writes the report.

All that it knows stands in the store. So when it is lost, another rank's leader goes through the
same steps, finds most of them answered, and brings the run to its end.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from ddpcheck.check import Check, Stage
from ddpcheck.engine.against import against_baseline
from ddpcheck.engine.announcements import ASSIGNMENT, Assignment, Decision, End
from ddpcheck.engine.assembly import Ranks, build_report, hosts_of, judge_testimonies
from ddpcheck.engine.channel import Channel
from ddpcheck.engine.entries import Crashed, Ended, Entry, Present, Refused
from ddpcheck.engine.gathering import Gathering
from ddpcheck.engine.judging import (
    Judgement,
    by_check,
    disregarded,
    judge_checks,
    not_run,
    without_facts,
)
from ddpcheck.engine.outcomes import testimony_told
from ddpcheck.engine.plan import Step
from ddpcheck.engine.progress import show_progress
from ddpcheck.engine.roll import Muster, RollCall, described, refusal_of, seats_of
from ddpcheck.engine.rundir import discard, keep_report, make_run_dir, note_start
from ddpcheck.engine.suppressing import without_suppressed
from ddpcheck.errors import ExitCode, ReportError
from ddpcheck.launch.host import ENDED
from ddpcheck.launch.identity import Identity
from ddpcheck.measures.inquest import Kind, inquest
from ddpcheck.measures.testimony import Testimony
from ddpcheck.report import Report, Run, exit_code_of
from ddpcheck.settings import RunSettings

OnReport = Callable[[Report, Path], None]

# Whoever starts ranks for these tells how they ended.
EXITS_ARE_TOLD = ("ddpcheck", "script")
RUN = "run"
# The first leader to come this far reports, and no other.
REPORTING = "reporting"
REPORTING_S = 5.0


@dataclass(frozen=True)
class Task:
    """What there is to lead; ``on_report`` shows the report, once. Times are monotonic."""

    who: Identity
    settings: RunSettings
    steps: Sequence[Step]
    last_words: Sequence[Check]
    run_id: str
    deadline_s: float
    began: float
    on_report: OnReport
    muster: Muster = field(default_factory=Muster)


class Leader:
    """Runs beside the leading rank's own work, so that a rank that hangs still reports."""

    def __init__(self, new_channel: Callable[[], Channel], task: Task) -> None:
        self._thread = threading.Thread(target=self._run, name="ddpcheck leader", daemon=True)
        self._new_channel = new_channel
        self._task = task
        self._who = task.who
        self._settings = task.settings
        self._entries: dict[int, list[Entry]] = {}
        self._testimonies: dict[int, Testimony] = {}
        self._absent: list[int] = []
        self._complete = False
        self._judgements: list[Judgement] = []
        self._condemned: list[int] = []
        self._kept_waiting: tuple[int, ...] = ()
        self._goes_on = False

    def start(self) -> None:
        """Lead in a thread of its own, on a channel of its own."""
        self._thread.start()

    def join(self) -> None:
        """Wait until the run is led to its end, if this process leads it."""
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        self._channel = self._new_channel()
        try:
            self._lead()
        finally:
            # Whatever went wrong here, nobody must be left waiting for a verdict.
            if not self._channel.has(ENDED):
                self._channel.announce(ENDED, End(ExitCode.INTERNAL))

    def _lead(self) -> None:
        taken_over = self._channel.has(ASSIGNMENT)
        roll = RollCall(self._channel, self._task.muster, self._who.world_size)
        until = self._task.began + (self._task.muster.roll_s or self._task.deadline_s)
        members = roll.members() if taken_over else roll.call(until)
        if taken_over:
            self._take_over(members)
        elif not self._open(members):
            return
        refusal = self._lead_stages()
        if refusal:
            discard(self._run_dir)
            self._refuse(refusal)
        else:
            self._finish()

    def _open(self, members: Sequence[Present]) -> bool:
        """Make the run directory and seat the members; return whether the run begins."""
        task = self._task
        try:
            self._run_dir = make_run_dir(self._settings.report_dir, self._task.run_id)
        except ReportError as error:
            self._refuse(str(error))
            return False
        refusal = refusal_of(members, self._settings) or self._task.muster.refusal(members)
        if refusal:
            discard(self._run_dir)
            self._refuse(refusal)
            return False
        seats = seats_of([member.rank for member in members], self._who.world_size)
        self._run_record = described(task.run_id, task.settings, task.who, members)
        self._seat(members, seats, taken_over=False)
        note_start(self._run_record, self._run_dir)
        self._channel.announce(RUN, self._run_record)
        assignment = Assignment(
            run_id=self._task.run_id,
            run_dir=str(self._run_dir),
            backend=self._run_record.backend,
            seats=seats,
            deadline_s=self._task.deadline_s,
            complete=self._complete,
        )
        self._channel.announce(ASSIGNMENT, assignment)
        return True

    def _take_over(self, members: Sequence[Present]) -> None:
        assignment = self._channel.read_message(ASSIGNMENT, Assignment)
        # Whom this one follows may have died before it woke those that wait for their seats.
        self._channel.announce(ASSIGNMENT, assignment)
        self._run_dir = Path(assignment.run_dir)
        self._run_record = self._channel.read_message(RUN, Run)
        self._seat(members[: len(assignment.seats)], assignment.seats, taken_over=True)

    def _seat(self, members: Sequence[Present], seats: Sequence[int], *, taken_over: bool) -> None:
        self._entries = {
            seat: [member] for seat, member in sorted(zip(seats, members, strict=True))
        }
        self._pids = {seat: member.pid for seat, member in zip(seats, members, strict=True)}
        claimed = [member.rank for member in members]
        self._absent = sorted(set(range(self._who.world_size)) - set(claimed))
        self._complete = sorted(claimed) == list(range(self._who.world_size))
        self._gathering = Gathering(
            self._channel, seats, self._task.deadline_s, taken_over=taken_over
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
            told, garbled = self._gathering.hear(step)
            for seat, each in told.items():
                self._entries[seat] += without_facts(each)
            refusals = [e.message for each in told.values() for e in each if isinstance(e, Refused)]
            if refusals:
                self._decide(step, go=False)
                return refusals[0]
            if waiting := self._waiting_for_reports(told, step):
                told = told | waiting
            elif garbled or len(told) < len(self._entries) or _called_differently(told):
                self._inquire(garbled, step)
                told = told | self._seen_so_far(told)
            judged = self._judge(step, told)
            self._judgements += judged
            stop = self._reason_to_stop(step, judged)
            if self._decide(step, go=not stop):
                took_s = time.monotonic() - started
                show_progress(step, judged, len(told), len(self._entries), took_s)
        return ""

    def _waiting_for_reports(
        self, told: Mapping[int, Sequence[Entry]], step: Step
    ) -> dict[int, list[Entry]]:
        """Return what scripts have shown that wait for one which is at its report, midway.

        Ranks need not make equally many steps: they are not to blame for where that one stops.
        """
        ends = [each for entries in told.values() for each in entries if isinstance(each, Ended)]
        then = next((each.midway for each in ends if each.midway), "")
        late = sorted(set(self._entries) - set(told)) if then else []
        seen = self._gathering.shown_by(late)
        if not all(seen.get(seat) for seat in late):
            return {}
        for seat, each in seen.items():
            self._entries[seat] += [*each, Ended(step.stage.value)]
        self._kept_waiting = tuple(self._gathering.members_of(late))
        self._goes_on = then == "continue"
        return seen

    def _seen_so_far(self, told: Mapping[int, Sequence[Entry]]) -> dict[int, list[Entry]]:
        """Return what scripts that stand still have shown, and keep it."""
        seen = self._gathering.seen_so_far(sorted(set(self._entries) - set(told)))
        for seat, each in seen.items():
            self._entries[seat] += each
        return seen

    def _judge(self, step: Step, told: Mapping[int, Sequence[Entry]]) -> list[Judgement]:
        asked, host_of = self._run_record.configuration, hosts_of(self._entries)
        judged = [
            without_suppressed(each, asked, host_of)
            for each in judge_checks(step.checks, by_check(told))
        ]
        rulings = inquest(self._testimonies)
        odd = [seat for seat, ruling in rulings.items() if ruling.kind is Kind.OTHER_CALL]
        if not odd or step.stage not in (Stage.COLLECTIVES, Stage.REHEARSAL):
            return judged
        # What ranks measure with collectives that do not pair up says nothing of the machine.
        reason = f"rank {_listed(odd)} called other collectives"
        return [disregarded(each, reason) for each in judged]

    def _decide(self, step: Step, *, go: bool) -> bool:
        """Announce whether the run goes on; return whether this leader is the first to."""
        key = f"decision/{step.stage.value}"
        first = not self._channel.has(key)
        if first:
            self._channel.announce(key, Decision(go=go))
        return first

    def _inquire(self, garbled: Sequence[int], step: Step) -> None:
        held = self._gathering.hold_inquest(self._entries, garbled, step)
        if self._who.launcher in EXITS_ARE_TOLD:
            held = self._gathering.with_exits(held, self._pids)
        self._testimonies = held
        self._condemned = self._gathering.condemned(held)

    def _reason_to_stop(self, step: Step, judged: Sequence[Judgement]) -> str:
        if self._absent:
            return f"not all ranks came: no rank {_listed(self._absent)}"
        if self._testimonies:
            return f"the run ended in stage {step.stage.value}"
        bad = [each.record.id for each in judged if each.has_error or each.crashed_ranks]
        return f"{bad[0]} failed" if step.stage.gates and bad else ""

    def _finish(self) -> None:
        # A leader that was succeeded and came back leaves the report to the other one, unless
        # that has died over it.
        me = f"{self._who.host}/{os.getpid()}"
        if not self._channel.claim(REPORTING, me) and self._channel.poll([ENDED], REPORTING_S):
            return
        took_s = round(time.monotonic() - self._task.began, 3)
        run = msgspec.structs.replace(self._run_record, duration_s=took_s)
        testimonies = self._testimonies or {
            seat: testimony_told(told, Testimony()) for seat, told in self._entries.items()
        }
        last_words = judge_testimonies(self._task.last_words, testimonies)
        ranks = Ranks(self._entries, testimonies, self._absent, self._task.muster.absence())
        report = build_report(run, [*self._judgements, *last_words], ranks)
        report = against_baseline(report, self._settings)
        path = keep_report(report, self._run_dir)
        code = exit_code_of(report, self._settings.fail_on)
        self._task.on_report(report, path)
        interrupted = self._gathering.stopped_by == "SIGINT"
        end = ExitCode.INTERRUPTED if interrupted else code
        cause = _cause(report, path) if end else ""
        waiting = (self._kept_waiting, self._goes_on)
        self._channel.announce(ENDED, End(end, tuple(self._condemned), cause, *waiting))

    def _refuse(self, message: str) -> None:
        if self._channel.has(ENDED):  # the leader that this one follows has said it, and left
            return
        sys.stderr.write(f"ddpcheck: {message}\n")
        sys.stderr.flush()
        self._channel.announce(ENDED, End(ExitCode.USAGE))


def _cause(report: Report, path: Path) -> str:
    first = next(iter(report.findings), None)
    what = f"{first.id}: {first.message}" if first else f"verdict {report.verdict.value}"
    return f"ddpcheck: {what} | {path}"


def _called_differently(told: Mapping[int, Sequence[Entry]]) -> bool:
    ended = [each for entries in told.values() for each in entries if isinstance(each, Ended)]
    raised = any(isinstance(each, Crashed) for entries in told.values() for each in entries)
    # Who raised has left out the rest, as it must.
    return (len({each.calls for each in ended}) > 1 or _differ_in_a_group(ended)) and not raised


def _differ_in_a_group(ended: Sequence[Ended]) -> bool:
    """Return whether members of a group called equally many collectives on it, but others."""
    seen: dict[tuple[str, str], set[str]] = {}
    for each in ended:
        for name, told in each.groups.items():
            count, _, digest = told.partition(" ")
            seen.setdefault((name, count), set()).add(digest)
    return any(len(digests) > 1 for digests in seen.values())


def _listed(ranks: Iterable[int]) -> str:
    return ", ".join(str(rank) for rank in sorted(ranks))
