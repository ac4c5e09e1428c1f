"""One rank of a run, from meeting the others to leaving them."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ddpcheck.check import Meeting
from ddpcheck.engine.agents import look_above
from ddpcheck.engine.alone import place_of, report_alone
from ddpcheck.engine.announcements import Assignment, End
from ddpcheck.engine.channel import Channel
from ddpcheck.engine.chosen import chosen
from ddpcheck.engine.entries import Journal
from ddpcheck.engine.group import presence
from ddpcheck.engine.leader import Leader, OnReport, Task
from ddpcheck.engine.lookout import Lookout
from ddpcheck.engine.neighbours import machine
from ddpcheck.engine.plan import Step, probe_deadline_s, steps_of, steps_of_watching
from ddpcheck.engine.progress import show_silent_agent
from ddpcheck.engine.roll import Muster
from ddpcheck.engine.same_settings import settings_told
from ddpcheck.engine.sentinel import Post, Sentinel
from ddpcheck.engine.signals import SignalMail
from ddpcheck.engine.storeless import Storeless
from ddpcheck.engine.strays import Strays
from ddpcheck.engine.whereabouts import Whereabouts
from ddpcheck.engine.work import LEADER_SLACK_S, RankWork
from ddpcheck.errors import ExitCode, LaunchError, UsageError
from ddpcheck.launch.error_file import leave_cause
from ddpcheck.launch.host import ENDED
from ddpcheck.launch.identity import Identity, as_far_as_known, identity
from ddpcheck.launch.meeting import (
    in_own_run,
    join_store,
    key_prefix,
    meet,
    open_store,
    store_host,
)
from ddpcheck.launch.names import in_torchs_names
from ddpcheck.launch.stores import PrefixStore, Store
from ddpcheck.report import facts_in
from ddpcheck.settings import RunSettings, WatchSettings
from ddpcheck.watch import flight

if TYPE_CHECKING:
    from ddpcheck.engine.eyes import Eyes


def run_rank(settings: RunSettings, run_id: str, on_report: OnReport) -> int:
    """Take part in the run as the rank that the environment names; return the exit code.

    ``on_report`` is called once, on the leader. Raises UsageError or LaunchError when this
    process cannot take part at all.
    """
    # What the user's code reads there, it finds there, whoever launched it.
    os.environ.update(in_torchs_names(os.environ))
    try:
        who, unknown = identity(os.environ), None
    except UsageError as error:
        who, unknown = as_far_as_known(os.environ), error
    mail = SignalMail()
    flight.switch_on(os.environ)
    task = task_of(who, settings, run_id, on_report)
    deadline_s = task.deadline_s
    if unknown is not None:
        raise _alone(task, unknown)
    if who.rank == 0:
        facts_in(settings.baseline)  # what cannot be read is told before anybody waits
    try:
        hosts = open_store(who, deadline_s)
        store = meet(who, deadline_s, hosts=hosts)
    except LaunchError as error:
        raise _alone(task, error) from error
    return Rank(task, mail, store).run()


def task_of(
    who: Identity,
    settings: RunSettings,
    run_id: str,
    on_report: OnReport,
    muster: Muster | None = None,
) -> Task:
    """Return what there is to lead, for a rank that begins now."""
    checks = chosen(settings)
    watches = isinstance(settings, WatchSettings)
    return Task(
        who=who,
        settings=settings,
        steps=steps_of_watching(checks) if watches else steps_of(checks),
        last_words=checks,
        run_id=run_id,
        deadline_s=probe_deadline_s(settings.deadline_s, settings.profile, who.world_size),
        began=time.monotonic(),
        on_report=on_report,
        muster=muster or Muster(),
    )


def _alone(task: Task, error: UsageError | LaunchError) -> UsageError | LaunchError:
    """Write the report, for a scheduler to read, if this is a rank that does; return why.

    Rank 0 does; and of each host that cannot reach the others, its first rank: nobody else knows.
    """
    who = task.who
    cut_off = isinstance(error, LaunchError) and who.local_rank == 0 and not who.is_on_master
    if who.rank == 0 or cut_off:
        report_alone(task, error)
    return error


class Rank:
    """The threads of one rank: its work, its sentinel, and the leader where it leads."""

    def __init__(
        self, task: Task, mail: SignalMail, store: Store, early: Eyes | None = None
    ) -> None:
        took_s = round(time.monotonic() - task.began, 4)
        opened_by = store_host(store, task.who)
        self._meeting = Meeting(place_of(task.who), took_s, store_host=opened_by)
        self._who = in_own_run(store, task.who)
        self._task = task = replace(task, who=self._who)
        self._early = early
        self._mail = mail
        self._store = PrefixStore(key_prefix(self._who), store)
        self._channel = Channel(self._store)
        self._where = Whereabouts()
        self._has_left = False
        self._storeless = Storeless(task, self._where)
        self._beside: Sentinel | None = None
        self._lookout: Lookout | None = None
        self._strays = Strays(os.environ)
        self._leader = Leader(lambda: Channel(self._new_store()), task)

    def run(self) -> int:
        """Take part in the run to its end; return the exit code."""
        try:
            work = self.join()
            code = work if isinstance(work, int) else work.run()
        finally:
            self._let_go()
        self._leave()
        return code

    def join(self) -> RankWork | int:
        """Return what there is to do, once all have come; or the exit code if nothing is."""
        self._arrive()
        return self._seated()

    def part(self) -> None:
        """Leave the run: what ``join`` has given is done."""
        self._let_go()
        self._leave()
        self._mail.close()

    def _arrive(self) -> None:
        settings = self._task.settings
        told = settings_told(settings, self._task.last_words)
        present = presence(self._who, settings.backend)
        self._present = msgspec.structs.replace(present, settings=told)
        here = machine()
        self._member = member = self._channel.arrive(self._present, os.getpid(), here)
        self._post = Post(
            member=member,
            machine=here,
            world_size=self._who.world_size,
            deadline_s=self._task.deadline_s,
            lead=self._leader.start,
        )
        tell = show_silent_agent if self._who.local_rank == 0 else None
        self._where.agent = look_above(os.environ, self._who.host, tell)
        sentinel_channel = Channel(self._new_store())
        self._beside = Sentinel(
            sentinel_channel, self._post, self._where, self._mail, self._storeless
        )
        self._beside.start()
        above = [self._where.agent.look] if self._where.agent else []
        self._lookout = Lookout([self._storeless.look, self._strays.look, *above])
        if self._who.rank == 0 and self._channel.succeed("", member):
            self._leader.start()

    def _let_go(self) -> None:
        self._where.retire()
        if self._beside is not None:
            self._beside.join()
        if self._lookout is not None:
            self._lookout.close()
        if self._where.agent is not None:
            self._where.agent.close()

    def _leave(self) -> None:
        """Let all that is beside the main thread end, once; nothing of the run is left then."""
        if self._has_left:
            return
        self._has_left = True
        self._let_go()
        self._leader.join()
        with suppress(RuntimeError):  # the store may have gone first
            if self._channel.has(ENDED):
                end = self._channel.read_message(ENDED, End)
                if end.exit_code:
                    leave_cause(os.environ, end.cause)
            self._channel.tell(f"farewell/{self._member}", [])

    def _leave_script(self) -> None:
        """Leave the user's script to itself: it may go on for long."""
        self._leave()
        self._mail.close()

    def _seated(self) -> RankWork | int:
        # The first that leads may be lost in the roll call, and so may its successor.
        roll_s = max(3 * self._task.deadline_s, self._task.muster.start_s)
        patience_s = roll_s + LEADER_SLACK_S
        assignment = self._channel.hear_seats(patience_s)
        if assignment is None:
            end = self._channel.hear(ENDED, End, LEADER_SLACK_S)
            return end.exit_code if end else self._no_verdict()
        if self._member >= len(assignment.seats):
            who = self._who
            raise LaunchError(f"rank {who.rank} on {who.host} came when the ranks were complete")
        return self._work(assignment)

    def _work(self, assignment: Assignment) -> RankWork:
        seat = assignment.seats[self._member]
        journal = Journal(Path(assignment.run_dir), seat)
        journal.write([self._present])
        ranks = Path(assignment.run_dir) / "ranks"
        self._where.keep_files(ranks / f"{seat}.box", ranks / f"{seat}.stack")
        self._post.run_dir = self._storeless.run_dir = assignment.run_dir
        self._post.journal = self._storeless.journal = journal
        self._post.seats = tuple(assignment.seats)
        steps: tuple[Step, ...] = tuple(self._task.steps)
        settings = self._task.settings
        make: Callable[..., RankWork] = RankWork
        if isinstance(settings, WatchSettings):
            # Only who watches needs what it takes.
            watching = import_module("ddpcheck.engine.watching")
            make = partial(
                watching.WatchWork,
                watch=settings,
                leave=self._leave_script,
                is_asked_to_end=lambda: bool(self._mail.asked),
                early=self._early,
            )
        return make(
            settings=settings,
            who=self._who,
            store=self._store,
            assignment=assignment,
            seat=seat,
            steps=steps,
            whereabouts=self._where,
            journal=journal,
            meeting=msgspec.structs.replace(self._meeting, elsewhere=self._strays.seen()),
        )

    def _no_verdict(self) -> int:
        sys.stderr.write(
            f"ddpcheck: rank {self._who.rank} on {self._who.host}: no verdict came; "
            "the leader was lost, and nobody could take its place\n"
        )
        return ExitCode.INCOMPLETE

    def _new_store(self) -> Store:
        return PrefixStore(key_prefix(self._who), join_store(self._who, self._task.deadline_s))
