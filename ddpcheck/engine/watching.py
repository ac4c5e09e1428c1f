"""A rank's work while its user's own script runs."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Thread
from typing import Any

from ddpcheck.check import Stage
from ddpcheck.engine.channel import Decision, End
from ddpcheck.engine.entries import Ended, Entry, Skipped
from ddpcheck.engine.group import abort_group
from ddpcheck.engine.plan import UNBOUNDED_S
from ddpcheck.engine.probing import RAISED_BY_CODE, crash_of, outcome
from ddpcheck.engine.standstill import Standstill
from ddpcheck.engine.work import LEADER_SLACK_S, RankWork, facts_or_raise
from ddpcheck.errors import ExitCode
from ddpcheck.launch.host import ENDED
from ddpcheck.measures.moments import Moments
from ddpcheck.settings import WatchSettings
from ddpcheck.watch.calls import recorded_calls
from ddpcheck.watch.hooks import Hooks
from ddpcheck.watch.script import run_script, script_part
from ddpcheck.watch.stream import EventStream

SCRIPT = f"{Stage.WATCH.value}/script"
# What the observers saw is read within this time, or waits for the device.
READ_S = 2.0
BEHIND = "the device has not come to its numbers: it waits in a collective before them"


@dataclass
class WatchWork(RankWork):
    """The one stage of ``ddpcheck watch`` on one rank; ``leave`` ends all that is beside it."""

    watch: WatchSettings
    leave: Callable[[], None]

    def __post_init__(self) -> None:
        super().__post_init__()
        self._code: int | None = None
        self._has_raised = False
        self._observers: dict[str, Any] = {}
        self._recording = recorded_calls(self.whereabouts.box, self._called)

    def run(self) -> int:
        """Run the script under the observers; return the verdict's exit code, or the script's."""
        # The store of the run is at MASTER_PORT, as a launcher's own would be.
        os.environ["TORCHELASTIC_USE_AGENT_STORE"] = "True"
        os.environ.setdefault("TORCHELASTIC_RESTART_COUNT", "0")  # torch 2.4 reads it then
        self._hooks = Hooks(self._begin_stream, self.watch.steps, self._enough)
        self._hooks.install()
        self._recording.__enter__()
        self.whereabouts.seen_so_far = self._seen_so_far
        self.whereabouts.moments_since = self._moments_since
        self.whereabouts.enter(SCRIPT, UNBOUNDED_S)
        status = self._run_script()
        if self._code is not None:  # the report came before, and the script went on by itself
            return status
        return self._conclude(at_end=True) or status

    def _run_script(self) -> int:
        try:
            run_script(self.watch.script, is_module=self.watch.is_module)
        except SystemExit as end:
            status = _status(end)
            if status:
                self._end_with(end)
            return status
        except RAISED_BY_CODE as error:
            verdict = self._verdict()
            if verdict is not None:  # another rank has left after it, as it may
                return verdict.exit_code
            self._tell_of(error)
            return 1
        return 0

    def _verdict(self) -> End | None:
        """Return the end of the run if it came while the script was still watched, and ends it."""
        goes_on = self._code is not None or self.whereabouts.spared is not None
        with suppress(RuntimeError):  # the store may have gone
            if not goes_on and self.channel.has(ENDED):
                return self.channel.read_message(ENDED, End)
        return None

    def _tell_of(self, error: BaseException) -> None:
        """Show what the script raised, as Python would, and let the others know of it."""
        trace = script_part(error.__traceback__)
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        sys.stderr.flush()
        self._end_with(error)

    def _end_with(self, error: BaseException) -> None:
        """Let the others know, who may wait for this rank, unless the report has come."""
        if self._code is None:
            self._hooks.raised(error)
            self._has_raised = True
            self._crashed(crash_of(SCRIPT, error))

    def _called(self, name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Let the hooks hear of a collective of the script's."""
        self._hooks.called(name, arguments, named)

    def _is_in_group(self) -> bool:
        # What an observer raises is no matter of the script's, nor of its group.
        return self._has_raised

    def _begin_stream(self, device: str) -> EventStream:
        self.context = replace(self.context, device=device, watches=True)
        self.whereabouts.standstill = Standstill(on_gpu=self.context.on_gpu)
        (step,) = self.steps
        self._observers = {check.id: check.observer(self.context) for check in step.observers}
        return EventStream(self._observers)

    def _seen_so_far(self) -> list[Entry]:
        """Return what the observers saw, from another thread: the script stands still.

        What lies on a GPU behind the collective that it waits in cannot be read.
        """
        (step,) = self.steps
        told: dict[str, Entry] = {check.id: Skipped(check.id, BEHIND) for check in step.observers}
        readers = [Thread(target=self._read, args=(told, name), daemon=True) for name in told]
        for each in readers:
            each.start()
        until = time.monotonic() + READ_S
        for each in readers:
            each.join(max(0.0, until - time.monotonic()))
        return list(told.values())

    def _moments_since(self, moment: int) -> Moments | None:
        """Return what ranks must have in common, as far as it is known; from another thread."""
        known = (getattr(each, "moments", None) for each in self._observers.values())
        with suppress(Exception):  # an observer's own fault, which its facts will tell
            return next((moments(moment) for moments in known if moments), None)
        return None

    def _read(self, told: dict[str, Entry], check_id: str) -> None:
        raised = self._hooks.stream().raised.get(check_id)
        facts = facts_or_raise(self._observers[check_id].facts, raised)
        told[check_id] = outcome(check_id, facts, time.perf_counter())

    def _enough(self) -> None:
        """Report in the middle of the script; then let it go on by itself, or end it."""
        code = self._conclude(at_end=False)
        if self.watch.then == "stop":
            raise SystemExit(code)

    def _conclude(self, *, at_end: bool) -> int:
        """Tell what the observers saw, hear the verdict, and end what is beside the script."""
        stream = self._hooks.stream()
        self._hooks.close()
        self._recording.__exit__(None, None, None)
        self.whereabouts.leave()
        if self.whereabouts.spared is not None:  # its part of the report is written
            self._code = self.whereabouts.spared
            self.leave()
            return self._code
        (step,) = self.steps
        told: list[Entry] = [] if self.whereabouts.crash is None else [self.whereabouts.crash]
        for check in step.observers:
            raised = stream.raised.get(check.id)
            told.append(
                self._measure(check, facts_or_raise(self._observers[check.id].facts, raised))
            )
        midway = "" if at_end else self.watch.then
        last = Ended(step.stage.value, self.journal.broken, self.whereabouts.box.digest, midway)
        self.channel.tell(f"{step.stage.value}/{self.seat}", [*told, last])
        self.journal.write([last])
        if at_end:
            abort_group()  # as the end of the process would: peers that wait for it fail at once
        self.channel.hear(f"decision/{step.stage.value}", Decision, UNBOUNDED_S)
        end = self.channel.hear(ENDED, End, LEADER_SLACK_S)
        self._code = end.exit_code if end else ExitCode.INCOMPLETE
        self.leave()
        return self._code


def _status(end: SystemExit) -> int:
    """Return the exit code that Python would end with, and say what it would say."""
    if end.code is None:
        return 0
    if isinstance(end.code, int):
        return end.code
    sys.stderr.write(f"{end.code}\n")
    return 1
