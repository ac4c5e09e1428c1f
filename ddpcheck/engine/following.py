"""A script that starts its own ranks: it is run once, and followed into the processes it starts.

A process becomes a rank of the run when it makes its process group: there it says which rank it is,
of how many. Until then nothing is told of it, but that it lives: a process that makes no group is
none of the ranks. One that raises before, and has its number from ``torch.multiprocessing``, joins
to tell it.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any, cast

import torch.distributed as dist

from ddpcheck.engine.announcements import End
from ddpcheck.engine.channel import Channel
from ddpcheck.engine.eyes import eyes
from ddpcheck.engine.probing import raised_by_code
from ddpcheck.engine.rank import Rank, task_of
from ddpcheck.engine.rundir import is_stopped
from ddpcheck.engine.scripts_ranks import JOIN_S, STARTED, WAITS, Job, StartedByScript
from ddpcheck.engine.signals import SignalMail
from ddpcheck.engine.watching import WatchWork
from ddpcheck.errors import ExitCode
from ddpcheck.launch.endings import REQUESTS_TO_END, ending
from ddpcheck.launch.host import ENDED
from ddpcheck.launch.local import STORE_PORT
from ddpcheck.launch.meeting import join_store, key_prefix
from ddpcheck.report import Report
from ddpcheck.settings import RunSettings, WatchSettings
from ddpcheck.watch import flight
from ddpcheck.watch.rendezvous import around_init, group_told
from ddpcheck.watch.replaced import Around, Replaced
from ddpcheck.watch.script import run_script, show_raised, status_of
from ddpcheck.watch.starting import Starting
from ddpcheck.watch.stream import EventStream

INSTEAD = "torchrun --nproc-per-node 2 -m ddpcheck watch SCRIPT ARGS"


def follow_script(settings: RunSettings, run_id: str) -> int:
    """Run the script in this process, and follow those that it starts; return its exit code."""
    # The script may change the working directory.
    settings = replace(settings, report_dir=str(Path(settings.report_dir).absolute()))
    job = Job(cast("WatchSettings", settings), run_id, int(os.environ.pop(STORE_PORT)))
    return _Starter(job).run_script()


def begin(job: Job, size: int) -> None:
    """Begin in a process that was started by the script, and not forked."""
    _Followed(job, size).install()


class _Followed:
    """A process that may be a rank: hooks look on, and nobody is told until it is one."""

    def __init__(self, job: Job, size: int = -1) -> None:
        self._job = job
        self._eyes = eyes(1, self._stepped)
        self._starting = Starting(self, size)
        self._init = Replaced()
        self._rank: Rank | None = None
        self._work: WatchWork | None = None

    def install(self) -> None:
        """Put the hooks on."""
        self._eyes.open()
        around_init(self._init, self._making_group)
        self._starting.install()

    def _making_group(self, original: Around, *arguments: Any, **named: Any) -> Any:
        told = group_told(original, arguments, named, os.environ)
        if told is not None and self._rank is None and not dist.is_initialized():
            self._join(*told)
        return original(*arguments, **named)

    def inherited(self, size: int) -> Callable[[], None]:
        """Return what a process that is not forked begins with."""
        return functools.partial(begin, self._job, size)

    def run(self, call: Callable[[], Any], rank: int, size: int) -> Any:
        """Make the call that this process was started for."""
        # Forked from one that hands signals on to those that it has started.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._eyes.hooks.tell(_nobody, 0, _nothing)
        try:
            value = call()
        except raised_by_code() as error:
            is_fault = not isinstance(error, SystemExit) or error.code not in (None, 0)
            if self._rank is None and is_fault and rank >= 0:
                self._join(rank, size)
            self._end(error if is_fault else None)
            raise
        self._end(None)
        return value

    def _join(self, rank: int, size: int) -> None:
        """Become a rank of the run, unless it is over: those that the script starts first are."""
        who = self._job.identity(rank, size)
        self._starting.close()
        self._init.close()
        store = join_store(who, JOIN_S)
        if store.check([f"{key_prefix(who)}/{ENDED}"]):
            self._eyes.close()
            return
        import_module("torch._dynamo")  # DDP and the optimizers import it on first use
        mail = _mail_beside_the_scripts()
        flight.switch_on(os.environ)
        muster = StartedByScript(self._job)
        task = task_of(who, self._job.settings, self._job.run_id, _leave_it_to_the_parent, muster)
        self._rank = Rank(task, mail, store, self._eyes)
        try:
            work = self._rank.join()
        except BaseException:
            self._rank.part()
            raise
        if isinstance(work, int):
            self._rank.part()
            raise SystemExit(work)
        self._work = cast("WatchWork", work)
        self._work.begin()

    def _end(self, error: BaseException | None) -> int:
        """Conclude what this rank has to tell, if it is one; return the verdict's exit code."""
        if self._rank is None or self._work is None:
            return 0
        # Once there is a verdict, another rank may have left, as it may.
        if error is not None and self._work.verdict() is None:
            code = self._work.interrupted(error)
            if code is not None:
                return code
            self._work.raised(error)
        code = self._work.end(0)
        self._rank.part()
        return code

    def _stepped(self) -> None:
        """Hear of the first optimizer step of a process that is no rank."""

    def started(self, pid: int) -> None:
        """Hear of a process that was started here: no rank of the script's, but of a rank's."""

    def waits(self) -> None:
        """Hear that this process begins to wait for one."""

    def ended(self, pid: int, how: str) -> None:
        """Hear how it ended."""

    def waited(self) -> None:
        """Hear that this process has waited for one."""


class _Starter(_Followed):
    """The script's own process, which starts the others; it may be one of the ranks."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._pids: list[int] = []
        self._own = os.getpid()
        self._count = self._told_count = 0
        self._channel: Channel | None = None

    def run_script(self) -> int:
        """Run the script to its end; return its exit code."""
        settings = self._job.settings
        self.install()
        for number in REQUESTS_TO_END:
            signal.signal(number, self._hand_on)
        raised = ""
        try:
            run_script(settings.script, is_module=settings.is_module)
        except SystemExit as end:
            status = status_of(end)
            self._end(end if status else None)
        except raised_by_code() as error:
            show_raised(error)
            status, raised = 1, type(error).__name__
            self._end(error)
        else:
            status = 0
            self._end(None)
        self.waits()
        self._starting.close()
        if self._rank is None and not self._told().arrivals() and status != ExitCode.USAGE:
            return (
                self._tell_of_raised(raised)
                if raised
                else self._tell_of_no_ranks(f"ended with {ending(status)}")
            )
        return status

    def _tell_of_raised(self, name: str) -> int:
        sys.stderr.write(
            f"ddpcheck: {self._job.settings.script[0]} raised {name}, as shown above, before any process made a "
            "process group: there is no report\n"
        )
        return ExitCode.USAGE

    def _tell_of_no_ranks(self, did: str) -> int:
        sys.stderr.write(
            f"ddpcheck: {self._job.settings.script[0]} {did}, and none of the processes that it has "
            f"started made a process group; '{INSTEAD}' starts the ranks\n"
        )
        return ExitCode.USAGE

    def _hand_on(self, number: int, _frame: FrameType | None) -> None:
        if not self._pids:
            raise KeyboardInterrupt
        for pid in self._pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _told(self) -> Channel:
        if self._channel is None:
            self._channel = self._job.channel()
        return self._channel

    @property
    def _is_here(self) -> bool:
        # What is forked from here inherits the hooks.
        return os.getpid() == self._own

    def _stepped(self) -> None:
        if self._is_here and not self._count:
            raise SystemExit(self._tell_of_no_ranks("trains by itself"))

    def started(self, pid: int) -> None:
        """Take down a process that may be a rank."""
        if self._is_here:
            self._count += 1
            self._pids.append(pid)
            self._told().note(STARTED, str(pid))

    def waits(self) -> None:
        """Tell that, by now, all have been started."""
        if self._is_here and self._count != self._told_count:
            self._told_count = self._count
            self._told().write(WAITS, str(self._count))

    def ended(self, pid: int, how: str) -> None:
        """Tell how one ended: nobody else knows."""
        if self._is_here and pid in self._pids:
            self._pids.remove(pid)
            with suppress(RuntimeError):  # the store may have gone first
                self._told().write(f"exit/{pid}", how)

    def waited(self) -> None:
        """Leave the script when its ranks have been ended in the middle, or were refused."""
        if not self._is_here or self._rank is not None:
            return
        if is_stopped(self._job.run_dir):
            raise SystemExit(0)
        channel = self._told()
        if channel.has(ENDED) and channel.read_message(ENDED, End).exit_code == ExitCode.USAGE:
            raise SystemExit(ExitCode.USAGE)


def _mail_beside_the_scripts() -> SignalMail:
    """Return a mail of the signals that the script does not handle itself by now."""
    usual = (signal.SIG_DFL, signal.SIG_IGN, signal.default_int_handler)
    handlers = {number: signal.getsignal(number) for number in REQUESTS_TO_END}
    mail = SignalMail()
    for number, handler in handlers.items():
        if handler not in usual and not isinstance(getattr(handler, "__self__", None), _Followed):
            signal.signal(number, handler)
    return mail


def _nobody(_device: str) -> EventStream:
    return EventStream({})


def _nothing() -> None:
    pass


def _leave_it_to_the_parent(_finished: Report, _path: Path) -> None:
    """Show nothing: the parent reads the report file and shows it."""
