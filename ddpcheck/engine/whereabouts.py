"""What the rank's main thread is doing, and until when it may."""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from typing import NamedTuple

from ddpcheck.engine.agents import AgentAbove
from ddpcheck.engine.blackbox import BlackBox
from ddpcheck.engine.entries import Crashed, Entry
from ddpcheck.engine.groups import Groups
from ddpcheck.engine.stacks import answer_in, answer_no_more, stack_of, waiting_call
from ddpcheck.engine.standstill import Standstill
from ddpcheck.measures.moments import Moments
from ddpcheck.measures.testimony import Agent, State, Testimony
from ddpcheck.watch import flight

# So long after its deadline, a process whose GIL is held is ended by faulthandler's own thread.
# Its sentinel puts this off; on a busy machine, or one that stands still now and then, that may
# take a second or two. The verdict does not wait for it: neighbours ask for the stack.
PATIENCE_S = 3.0
# A process whose sentinel has spoken is ended so by its own hand only when all else has failed.
LAST_RESORT_S = 20.0
LONGEST_S = 24 * 3600.0
# A rank that was at a stop may come to its next check before anybody asks what held the others up.
REMEMBERED_S = 5.0


class Stop(NamedTuple):
    """For how long the whole process did nothing, in which check, and when that was over."""

    seconds: float
    check: str
    over: float

    @property
    def is_recent(self) -> bool:
        """Return whether it can be what an inquest of now is about."""
        return time.monotonic() - self.over < REMEMBERED_S


class Whereabouts:
    """Written by the main thread, read by the sentinel."""

    def __init__(self) -> None:
        self.check = ""
        self.until = float("inf")
        self.entered = 0
        self.crash: Crashed | None = None
        self.left_at = ""  # the stack of what the script raised since it was asked to end
        self.spared: int | None = None  # the exit code of a verdict after which its script goes on
        self.box = BlackBox(None)
        self.groups: Groups | None = None  # of a watched script
        self.standstill: Standstill | None = None
        self._stop = Stop(0.0, "", float("-inf"))
        self.seen_so_far: Callable[[], list[Entry]] | None = None
        self.agent: AgentAbove | None = None
        self.moments_since: Callable[[int], Moments | None] | None = None
        self._lock = threading.Lock()
        self._stack_file: TextIOWrapper | None = None
        self._is_armed = False
        self._retired = os.eventfd(0)
        self._main = threading.main_thread().ident

    @property
    def retirement(self) -> int:
        """Return the descriptor that becomes readable when the main thread is leaving."""
        return self._retired

    def keep_files(self, box: Path, stack: Path) -> None:
        """From now on let neighbours read this rank's black box, and the stack it dies with."""
        self.box = BlackBox(box)
        with suppress(OSError):
            self._stack_file = stack.open("w")
            faulthandler.enable(self._stack_file)  # a fatal signal leaves its stack there
            answer_in(self._stack_file)

    def enter(self, check: str, deadline_s: float) -> None:
        """Note that the main thread starts on ``check``."""
        with self._lock:
            self.check, self.until = check, time.monotonic() + deadline_s
            self.entered += 1
            self._end_after(deadline_s + PATIENCE_S)
        self.box.enter_check(check)

    @property
    def busy(self) -> bool:
        """Return whether the main thread is in a check."""
        return self.until < float("inf")

    @property
    def overran(self) -> bool:
        """Return whether the main thread is in a check for longer than it may."""
        return time.monotonic() >= self.until

    @property
    def stands(self) -> bool:
        """Return whether a script, which has no deadline, stands still in a collective."""
        return self.standstill is not None and self.busy and self.standstill.stands

    def extend(self, seconds: float) -> None:
        """Allow the check that runs now so much more: the whole process was at a stop."""
        with self._lock:
            if self.busy:
                self.until += seconds
                self._end_after(self.until - time.monotonic() + PATIENCE_S)

    def note_stop(self, seconds: float) -> None:
        """Note that the whole process did nothing for so long, most of what the check has."""
        if not self._stop.is_recent or seconds > self._stop.seconds:
            self._stop = Stop(round(seconds, 1), self.check, time.monotonic())

    def hurry(self, grace_s: float) -> None:
        """Allow the check that runs now no more than ``grace_s`` from here on."""
        with self._lock:
            if self.busy:
                self.until = min(self.until, time.monotonic() + grace_s)

    def put_off_the_end(self) -> None:
        """Note that the sentinel speaks for this process, so that it need not be ended yet."""
        with self._lock:
            if self.busy:
                self._end_after(LAST_RESORT_S)

    def leave(self) -> None:
        """Note that the check has ended."""
        with self._lock:
            self.until = float("inf")
            if self._is_armed:
                self._is_armed = False
                faulthandler.cancel_dump_traceback_later()

    def retire(self) -> None:
        """Note that the main thread has heard the verdict and is leaving."""
        answer_no_more()
        os.eventfd_write(self._retired, 1)

    @property
    def calls(self) -> int:
        """Return how many collectives were called, on any group."""
        return self.box.count + (self.groups.count if self.groups else 0)

    @property
    def silent_agent(self) -> Agent | None:
        """Return the agent that started this rank, if it is silent now."""
        return self.agent.silent if self.agent else None

    def testimony(self, interrupted_by: str = "") -> Testimony:
        """Return what there is to say of this rank right now."""
        recorded, backend = flight.recorded_calls()
        groups = self.groups.told() if self.groups else ()
        stop = self._stop if self._stop.is_recent else None
        if self.crash is not None:
            return Testimony(
                state=State.RAISED,
                check=self.crash.check,
                error=self.crash.error,
                stack=self.crash.stack,
                order=self.crash.order,
                stood_s=stop.seconds if stop else 0.0,
                stood_in=stop.check if stop else "",
                calls=self.box.flight.calls,
                recorded=recorded,
                sequence=flight.sequence_number(),
                groups=groups,
                agent=self.silent_agent,
            )
        frame = None if self.left_at else sys._current_frames().get(self._main or 0)
        pending = next((call.what for call in recorded if not call.done), "")
        if self.stands and self.standstill is not None:
            pending = pending or self.standstill.waits_in
        return Testimony(
            state=State.BUSY if self.busy else State.ENDED,
            check=self.check,
            overran=self.overran or self.stands,
            stood_s=stop.seconds if stop else 0.0,
            stood_in=stop.check if stop else "",
            stack=(self.left_at or stack_of(frame)) if self.busy else "",
            waits_in=(pending or waiting_call(frame)) if self.busy else "",
            interrupted_by=interrupted_by,
            calls=self.box.flight.calls,
            recorded=recorded,
            sequence=flight.sequence_number(),
            backend=backend,
            digest=self.box.digest,
            groups=groups,
            agent=self.silent_agent,
        )

    def _end_after(self, seconds: float) -> None:
        file = self._stack_file or sys.__stderr__
        # A script without a deadline may have use for that timer itself: there is but one.
        if file is not None and seconds < LONGEST_S:
            self._is_armed = True
            faulthandler.dump_traceback_later(max(0.1, seconds), exit=True, file=file)
