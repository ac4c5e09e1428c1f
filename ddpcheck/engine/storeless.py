"""The verdict when the store has gone, or does not answer: from the files that ranks have left."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import msgspec

from ddpcheck.check import Check
from ddpcheck.engine.against import against_baseline
from ddpcheck.engine.announcements import End
from ddpcheck.engine.assembly import assemble
from ddpcheck.engine.entries import Ended, Journal, Testified, unpack
from ddpcheck.engine.leader import EXITS_ARE_TOLD, Task
from ddpcheck.engine.rundir import keep_report
from ddpcheck.engine.whereabouts import Whereabouts
from ddpcheck.errors import ExitCode, ReportError
from ddpcheck.launch.error_file import leave_cause
from ddpcheck.launch.exit_codes import leave_exit_code
from ddpcheck.measures.testimony import WATCHED
from ddpcheck.report import REPORT_NAME, exit_code_of, read_report

# The first that comes makes this file, and the report.
CLAIMED_NAME = ".without-store"
# Who beats to the store finds it gone within about a second of the others.
OTHERS_S = 3.0
REPORT_S = 5.0
# On a busy machine the sentinel may come round so late, from a store that answers.
BUSY_S = 5.0
PAUSE_S = 0.1


class Storeless:
    """Concludes a rank's part once the store has gone, or does not answer for a whole deadline.

    ``turns`` counts the sentinel's: it waits in the store for as long as that does not answer. A script
    that goes on training is not ended: who was stopped may go on as well.
    """

    def __init__(self, task: Task, where: Whereabouts) -> None:
        self._task = task
        self._where = where
        self.turns = 0
        self.journal: Journal | None = None
        self.run_dir = ""
        self._known = 0
        self._mute_s = 0.0

    def look(self, passed_s: float) -> None:
        """See whether the sentinel comes round; end this process when it has not for long."""
        self._mute_s = 0.0 if self.turns != self._known else self._mute_s + passed_s
        self._known = self.turns
        if not self._mute_s:
            return
        if self._where.overran and not self._is_in_script:
            # The check may wait for the store, as the sentinel does. Not before its deadline: that
            # would bring its end forward, for a sentinel that is late by one look.
            self._where.put_off_the_end()
        if self._mute_s > self._task.deadline_s + BUSY_S and not self._trains():
            leave_at_once(self.conclude(""))

    def conclude(self, signal: str) -> End:
        """Leave this rank's last words, and see that there is a report; return its end."""
        self._where.put_off_the_end()
        if self.journal is not None:
            # A check that overran may have waited for the store: none is to blame for that.
            last = self._where.testimony(signal)
            last = msgspec.structs.replace(last, overran=self._where.stands)
            self.journal.write([Testified(last)])
        code = _conclude_from_files(self.run_dir, self._task)
        return End(code, cause=_what_is_gone(self._task) if code else "")

    @property
    def _is_in_script(self) -> bool:
        return self._where.busy and self._where.check.startswith(WATCHED)

    def _trains(self) -> bool:
        standstill = self._where.standstill
        if standstill is None or not self._is_in_script:
            return False
        standstill.look(self._where.calls)
        return not standstill.stands


def leave_at_once(end: End) -> NoReturn:
    """End this process, whatever its threads are in."""
    leave_cause(os.environ, end.cause)
    leave_exit_code(os.environ, end.exit_code)
    sys.stdout.flush()
    os._exit(end.exit_code)


def _conclude_from_files(run_dir: str, task: Task) -> int:
    """See that there is a report, as far as this host has the files; return its exit code.

    Who started the ranks by itself makes the report when they have gone.
    """
    folder = Path(run_dir)
    if task.who.launcher in EXITS_ARE_TOLD or not run_dir:
        return ExitCode.INCOMPLETE
    if not (folder / REPORT_NAME).is_file():
        _say(task)
        with suppress(OSError):
            (folder / CLAIMED_NAME).touch(exist_ok=False)
            _wait_for_words(folder)
            _report(task, folder)
    return _exit_code(task, folder)


def _say(task: Task) -> None:
    if task.who.local_rank == 0:
        sys.stderr.write(f"{_what_is_gone(task)}\n")
        sys.stderr.flush()


def _what_is_gone(task: Task) -> str:
    who = task.who
    host = "the agent of rank 0" if who.store_is_hosted else "a process beside rank 0"
    return (
        f"ddpcheck: rank {who.rank} on {who.host}: the store at {who.master_addr}:{who.master_port} "
        f"is gone, or does not answer any more: what hosts it, {host}, has ended, is at a stop, or "
        "is cut off"
    )


def _wait_for_words(folder: Path) -> None:
    """Wait until each rank has left its last words, as far as it can."""
    until = time.monotonic() + OTHERS_S
    files = list((folder / "ranks").glob("*.jsonl"))
    while time.monotonic() < until and not all(_has_spoken(each) for each in files):
        time.sleep(PAUSE_S)


def _has_spoken(file: Path) -> bool:
    return any(isinstance(each, Testified | Ended) for each in unpack(file.read_bytes()))


def _report(task: Task, folder: Path) -> None:
    with suppress(ReportError):  # this host has no files of the run
        report = against_baseline(assemble(folder, {}, _asked(task)), task.settings)
        task.on_report(report, keep_report(report, folder))


def _asked(task: Task) -> list[Check]:
    measuring = [check for step in task.steps for check in step.checks]
    return [*measuring, *(check for check in task.last_words if check.is_inquest)]


def _exit_code(task: Task, folder: Path) -> int:
    until = time.monotonic() + REPORT_S
    while not (folder / REPORT_NAME).is_file():
        if time.monotonic() > until:
            return ExitCode.INCOMPLETE
        time.sleep(PAUSE_S)
    return exit_code_of(read_report(folder), task.settings.fail_on)
