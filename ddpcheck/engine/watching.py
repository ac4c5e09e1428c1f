"""A rank's work while its user's own script runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread
from typing import Any

from ddpcheck.check import Stage
from ddpcheck.engine.announcements import Decision, End
from ddpcheck.engine.blackbox import GROUPS_SUFFIX
from ddpcheck.engine.entries import Ended, Entry, Refused, Skipped
from ddpcheck.engine.eyes import Eyes, eyes
from ddpcheck.engine.group import abort_group
from ddpcheck.engine.plan import UNBOUNDED_S
from ddpcheck.engine.probing import crash_of, outcome, raised_by_code
from ddpcheck.engine.progress import show_stop
from ddpcheck.engine.rundir import note_stop
from ddpcheck.engine.standstill import Standstill
from ddpcheck.engine.work import LEADER_SLACK_S, RankWork, facts_or_raise
from ddpcheck.errors import ExitCode
from ddpcheck.launch.host import ENDED
from ddpcheck.launch.own_ranks import STARTS_OWN
from ddpcheck.measures.moments import Moments
from ddpcheck.measures.testimony import is_victims
from ddpcheck.settings import WatchSettings
from ddpcheck.target.live import Trained
from ddpcheck.watch.own_ranks import OwnRanks
from ddpcheck.watch.raised import telling
from ddpcheck.watch.rendezvous import Rendezvous
from ddpcheck.watch.script import run_script, show_raised, status_of
from ddpcheck.watch.stream import EventStream

SCRIPT = f"{Stage.WATCH.value}/script"
# What the observers saw is read within this time, or waits for the device.
READ_S = 2.0
NOTHING_YET = "the script stood still before it trained anything"
BEHIND = "the device has not come to its numbers: it waits in a collective before them"


@dataclass
class WatchWork(RankWork):
    """The one stage of ``ddpcheck watch`` on one rank; ``leave`` ends all that is beside it.

    It runs the script (``run``), or looks on from ``begin`` to ``end`` while others run it:
    those that have had hooks on it from ``early`` on.
    """

    watch: WatchSettings
    leave: Callable[[], None]
    is_asked_to_end: Callable[[], bool]
    early: Eyes | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._code: int | None = None
        self._has_raised = False
        self._observers: dict[str, Any] = {}
        self._guards: list[Rendezvous | OwnRanks] = []
        self._eyes = self.early or eyes()

    def run(self) -> int:
        """Run the script under the observers; return the verdict's exit code, or the script's."""
        self._guards = [
            Rendezvous(self.who.world_size, self._claim, self._refuse),
            OwnRanks(self._refuse_ranks),
        ]
        for each in self._guards:
            each.install()
        self._eyes.open()
        self.begin()
        return self.end(self._run_script())

    def begin(self) -> None:
        """Look on from here."""
        self._hooks = self._eyes.hooks
        self._hooks.tell(self._begin_stream, self.watch.steps, self._enough)
        self._eyes.relay.box = self.whereabouts.box
        self._eyes.groups.keep(self.journal.path.with_suffix(GROUPS_SUFFIX))
        self.whereabouts.groups = self._eyes.groups
        self.whereabouts.standstill = Standstill(on_gpu=False)  # which device it uses will be seen
        self.whereabouts.seen_so_far = self._seen_so_far
        self.whereabouts.moments_since = self._moments_since
        self.whereabouts.enter(SCRIPT, UNBOUNDED_S)

    def end(self, status: int) -> int:
        """Conclude, unless the report came before; return its exit code, or the script's."""
        if self._code is not None:  # the script went on by itself
            return status
        if not self._has_raised:
            self._hooks.stream().emit("ended")
        return self._conclude(at_end=True) or status

    def _run_script(self) -> int:
        try:
            run_script(self.watch.script, is_module=self.watch.is_module)
        except SystemExit as end:
            status = status_of(end)
            if status:
                self.raised(end)
            return status
        except raised_by_code() as error:
            verdict = self.verdict()
            if verdict is not None:  # another rank has left after it, as it may
                return verdict.exit_code
            code = self.interrupted(error)
            if code is not None:
                return code
            show_raised(error)
            self.raised(error)
            return 1
        return 0

    def interrupted(self, error: BaseException) -> int | None:
        """Wait for the end, if it was asked for, and tell where the script was; return its exit code.

        Ctrl-C, and torchrun's signal, reach loader workers as well: what is raised since is no fault of
        the script's. That a peer has gone says why the end was asked for.
        """
        is_peers = is_victims(f"{type(error).__name__}: {error}")
        if self._code is not None or is_peers or not self.is_asked_to_end():
            return None
        self.whereabouts.left_at = crash_of(SCRIPT, error).stack
        end = self.channel.hear(ENDED, End, LEADER_SLACK_S)
        return end.exit_code if end else ExitCode.INCOMPLETE

    def verdict(self) -> End | None:
        """Return the end of the run if it came while the script was still watched, and ends it."""
        goes_on = self._code is not None or self.whereabouts.spared is not None
        with suppress(RuntimeError):  # the store may have gone
            if not goes_on and self.channel.has(ENDED):
                return self.channel.read_message(ENDED, End)
        return None

    def raised(self, error: BaseException) -> None:
        """Let the others know, who may wait for this rank, unless the report has come."""
        if self._code is None:
            told = telling(error)
            self._hooks.raised(told)
            self._has_raised = True
            self._crashed(crash_of(SCRIPT, told))

    def _is_in_group(self) -> bool:
        return self._has_raised  # what an observer raises is no matter of the script's group

    def on_placed(self, module: Any) -> None:
        """Know on which device the script trains: what came before may not have told."""
        first = next(iter(module.parameters()), None)
        if first is not None:
            self._trains_on(str(first.device))

    def on_built(self, live: Trained) -> None:
        """Know it of what is not placed first."""
        self._trains_on(live.device)

    def on_drained(self, _feed: object) -> None:
        """Tell what must outlive this process: gloo aborts who goes on to another collective."""
        (step,) = self.steps
        told: dict[str, Entry] = {}
        for check in step.observers:
            if check.is_kept:
                self._read(told, check.id)
        with suppress(RuntimeError):  # the store may have gone
            self.channel.tell(f"kept/{self.seat}", told.values())

    def _trains_on(self, device: str) -> None:
        if device != self.context.device:
            self.context = replace(self.context, device=device)
            self.whereabouts.standstill = Standstill(on_gpu=self.context.on_gpu)

    def _begin_stream(self, device: str) -> EventStream:
        self.context = replace(self.context, device=device, watches=True)
        self.whereabouts.standstill = Standstill(on_gpu=self.context.on_gpu)
        (step,) = self.steps
        kept = self._kept_observers()
        self._observers = {
            check.id: check.observer(self.context) for check in step.observers
        } | kept
        return EventStream({**self._observers, SCRIPT: self})

    def _kept_observers(self) -> dict[str, Any]:
        """Return those that look on since before the model that is watched now, and end the others.

        What a script saved or split, say, has to do with no model; the rest begins anew.
        """
        known = self._observers.items()
        for _, other in known:
            if hasattr(other, "on_built"):
                with suppress(Exception):
                    other.facts()  # its hooks come off
        return {name: other for name, other in known if not hasattr(other, "on_built")}

    def _seen_so_far(self) -> list[Entry]:
        """Return what the observers saw, from another thread: the script stands still.

        What lies on a GPU behind the collective that it waits in cannot be read.
        """
        (step,) = self.steps
        if not self._observers:
            return [Skipped(check.id, NOTHING_YET) for check in step.observers]
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
        if self.watch.then == "stop" and self.seat == 0:
            show_stop(self.watch.steps)
        if self.watch.then == "stop" and self.early is None:
            raise SystemExit(code)
        if self.watch.then == "stop":
            # Who started this rank is stopped as well: to it the rank has done its work.
            note_stop(Path(self.assignment.run_dir))
            raise SystemExit(0)

    def _claim(self, rank: int) -> bool:
        """Return whether no other process has said that it is this rank of the script's group."""
        return self.channel.claim(f"script-rank/{rank}", f"{self.seat}")

    def _refuse_ranks(self, found: str, can_follow: bool) -> None:
        """End the run of a script that starts ranks of its own; started once, it is followed."""
        which = f"{found} in rank {self.seat} of {self.context.world_size}"
        if can_follow and self.who.launcher == "ddpcheck":
            self._refuse(f"{which}: the script is started again, once, and followed", STARTS_OWN)
        elif can_follow:
            self._refuse(
                f"{which}: start the script without a launcher: ddpcheck watch SCRIPT ARGS"
            )
        else:
            self._refuse(
                f"{which}, which are not followed: start what they run by torchrun "
                "--nproc-per-node 2 -m ddpcheck watch SCRIPT ARGS"
            )

    def _refuse(self, message: str, code: int = ExitCode.USAGE) -> None:
        """End the run, for all ranks, with what the user has to change."""
        (step,) = self.steps
        self._take_off()
        self.channel.tell(f"{step.stage.value}/{self.seat}", [Refused(message)])
        self.channel.alarm()
        self.channel.hear(ENDED, End, LEADER_SLACK_S)
        self._code = code
        self.leave()
        raise SystemExit(self._code)

    def _conclude(self, *, at_end: bool) -> int:
        """Tell what the observers saw, hear the verdict, and end what is beside the script."""
        stream = self._hooks.stream()
        self._take_off()
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
        called = (self.whereabouts.box.digest, midway, self._eyes.groups.digests())
        agent = self.whereabouts.silent_agent
        last = Ended(step.stage.value, self.journal.broken, *called, agent=agent)
        self.journal.write([last])  # before the store, which may not answer any more
        self.channel.tell(f"{step.stage.value}/{self.seat}", [*told, last])
        if at_end:
            abort_group()  # as the end of the process would: peers that wait for it fail at once
        self.channel.hear(f"decision/{step.stage.value}", Decision, UNBOUNDED_S)
        end = self.channel.hear(ENDED, End, LEADER_SLACK_S)
        self._code = end.exit_code if end else ExitCode.INCOMPLETE
        self.leave()
        return self._code

    def _take_off(self) -> None:
        self._eyes.close()
        for each in reversed(self._guards):
            each.close()
        self.whereabouts.leave()
