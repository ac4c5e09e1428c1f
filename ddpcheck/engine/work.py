"""A rank's own work: measure stage by stage, tell, and hear whether to go on."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

import msgspec
import torch
from torch.distributed import DistStoreError

from ddpcheck.check import Check, Context, Facts, Joining, Meeting, Stage
from ddpcheck.engine.announcements import RAISED, Assignment, Decision, End
from ddpcheck.engine.channel import Channel
from ddpcheck.engine.entries import Began, Crashed, Ended, Entry, Journal, Refused, Skipped
from ddpcheck.engine.group import GROUP_SLACK, abort_group, device_of, join_group, leave_group
from ddpcheck.engine.nccl_log import close_log, kept_log
from ddpcheck.engine.neighbours import machine
from ddpcheck.engine.plan import Step
from ddpcheck.engine.probing import RAISED_BY_CODE, crash_of, outcome
from ddpcheck.engine.rehearsal import STEPS, rehearse
from ddpcheck.engine.whereabouts import Whereabouts
from ddpcheck.errors import ExitCode, TargetError
from ddpcheck.launch.host import ENDED
from ddpcheck.launch.identity import Identity
from ddpcheck.launch.stores import PrefixStore, Store
from ddpcheck.measures.testimony import MEETING
from ddpcheck.report import facts_in
from ddpcheck.settings import RunSettings
from ddpcheck.target.live import go_live
from ddpcheck.target.load import Factory, build, find_factory, is_built_in, source_of
from ddpcheck.watch.calls import recorded_calls
from ddpcheck.watch.stream import EventStream

# What a rank does between its checks, named after the stage as a check would be.
JOINING = f"{Stage.COLLECTIVES.value}/joining-the-group"
FINDING = f"{Stage.LAUNCH.value}/finding-the-target"
TRAINING = f"{Stage.REHEARSAL.value}/training"
# A rank that waits for the leader allows it this much more than the work's own deadline.
LEADER_SLACK_S = 15.0


@dataclass
class RankWork:
    """The stages of a run on one rank."""

    settings: RunSettings
    who: Identity
    store: Store
    assignment: Assignment
    seat: int
    steps: Sequence[Step]
    whereabouts: Whereabouts
    journal: Journal
    meeting: Meeting

    def __post_init__(self) -> None:
        self.channel = Channel(self.store)
        self.factory: Factory | None = None
        # What the training raised, until all is told: its frames hold the loader, whose workers take
        # seconds to end where one of them has died, in whatever check the memory is collected.
        self._held: BaseException | None = None
        self.context = Context(
            rank=self.seat,
            local_rank=self.who.local_rank,
            world_size=len(self.assignment.seats),
            environ=dict(os.environ),
            host=self.who.host,
            backend=self.assignment.backend,
            device=device_of(self.assignment.backend, self.who.local_rank),
            profile=self.settings.profile,
            clock=time.perf_counter,
            timeout=timedelta(seconds=self.assignment.deadline_s),
            machine=machine(),
            script=source_of(self.settings.target),
            gpus=torch.cuda.device_count(),
            asked_backend=self.settings.backend,
            mesh=self.settings.mesh,
            baseline=facts_in(self.settings.baseline) if self.seat == 0 else {},
            baseline_bound_ratio=self.settings.baseline_bound_ratio,
            meeting=self.meeting,
            store=PrefixStore("probes", self.store),
        )

    def run(self) -> int:
        """Go through the stages until the end is announced; return the exit code."""
        with recorded_calls(self.whereabouts.box):
            self._go_through_the_stages()
        end = self.channel.hear(ENDED, End, LEADER_SLACK_S)
        leave_group()
        if self.context.nccl_log:
            close_log(self.context.nccl_log, os.environ)
        return end.exit_code if end else ExitCode.INCOMPLETE

    def _go_through_the_stages(self) -> None:
        for step in self._steps_to_take():
            entries = self._stage(step)
            last = Ended(
                step.stage.value,
                self.journal.broken,
                self.whereabouts.box.digest,
                agent=self.whereabouts.silent_agent,
            )
            self.journal.write([last])  # before the store, which may not answer any more
            self.channel.tell(f"{step.stage.value}/{self.seat}", [*entries, last])
            self._held = None
            patience_s = step.deadline_s(self.assignment.deadline_s) + LEADER_SLACK_S
            decision = self.channel.hear(f"decision/{step.stage.value}", Decision, patience_s)
            if decision is None or not decision.go:
                break

    def _steps_to_take(self) -> list[Step]:
        complete = self.assignment.complete
        return [step for step in self.steps if complete or step.stage is Stage.LAUNCH]

    def _stage(self, step: Step) -> list[Entry]:
        if step is self.steps[0] and self._needs_target():
            self._begin(FINDING)
            refusal = self._find_target()
            self.whereabouts.leave()
            if refusal:
                self.channel.alarm()
                return [refusal]
        if step.stage.order >= Stage.DEVICES.order and self.context.on_gpu:
            # A script that hides GPUs while it is imported: the checks of this stage say so.
            with suppress(RuntimeError):
                torch.cuda.set_device(self.context.device)
        if step.stage.order >= Stage.COLLECTIVES.order and self.context.joining is None:
            self._join()
        return list(self._entries(step))

    def _entries(self, step: Step) -> Iterator[Entry]:
        if step.stage is Stage.REHEARSAL:
            told = list(self._rehearse(step))
            yield from told
            if any(isinstance(entry, Refused) for entry in told):
                self.channel.alarm()  # the others may wait for this rank in vain
                return
            # A rank that left out a step would go on to other collectives, and pair those with
            # the others' last ones.
            self._meet_the_others(stay=self.context.joining is not None)
        for check in step.probes:
            yield self._measure(check, partial(check.probe, self.context))

    def _needs_target(self) -> bool:
        return any(step.stage is Stage.REHEARSAL for step in self.steps)

    def _find_target(self) -> Refused | None:
        try:
            self.factory = find_factory(
                self.settings.target, self.settings.data, self.seat, self.context.world_size
            )
        except TargetError as error:
            return Refused(str(error))
        self.context = replace(self.context, script=source_of(self.settings.target))
        return None

    def _join(self) -> None:
        started = time.perf_counter()
        self._begin(JOINING)
        with kept_log(os.environ) if self.context.on_gpu else nullcontext() as log:
            error = join_group(self.who, self.context)
        took_s = round(time.perf_counter() - started, 4)
        if error:
            self._crashed(Crashed(JOINING, error, ""))
        self.whereabouts.leave()
        self.context = replace(
            self.context,
            joining=Joining(self.context.backend, took_s, error),
            nccl_log=str(log or ""),
        )

    def _rehearse(self, step: Step) -> Iterator[Entry]:
        """Build the target, train it under the observers, and ask them for their facts."""
        if self.factory is None or self.context.joining is None or self.context.joining.error:
            yield from (Skipped(check.id, "there is no process group") for check in step.observers)
            return
        observers = {check.id: check.observer(self.context) for check in step.observers}
        stream = EventStream(observers)
        self._begin(TRAINING)
        try:
            self._train(self.factory, stream)
        except TargetError as error:
            yield Refused(f"rank {self.seat}: {error}")
            return
        except RAISED_BY_CODE as error:
            self._held = error
            yield self._crashed(crash_of(TRAINING, error))
        finally:
            self.whereabouts.leave()
        for check in step.observers:
            raised = stream.raised.get(check.id)
            yield self._measure(check, facts_or_raise(observers[check.id].facts, raised))

    def _train(self, factory: Factory, stream: EventStream) -> None:
        target = build(factory, self.settings.target)
        try:
            live = go_live(
                target,
                self.settings.target,
                is_built_in=is_built_in(self.settings.target),
                device=self.context.device,
                on_placed=partial(stream.emit, "placed"),
            )
        except TargetError:
            raise
        except RAISED_BY_CODE as error:
            stream.emit("raise", 0, error)
            raise
        rehearse(live, STEPS[self.settings.profile], stream)
        self.context = replace(self.context, target=live)

    def _meet_the_others(self, *, stay: bool) -> None:
        """Wait until all ranks have come through the training; a check's deadline holds here.

        Who has left the process group only says that it has come: it pairs with nobody.
        """
        self._begin(MEETING)
        if self.store.add("met", 1) == self.context.world_size:
            self.store.set("all-met", "")
        with suppress(DistStoreError):
            if stay:
                self.store.wait(["all-met"], self.context.timeout + GROUP_SLACK)
        self.whereabouts.leave()

    def _begin(self, what: str) -> None:
        self.whereabouts.enter(what, self.assignment.deadline_s)
        self.journal.write([Began(what, time.time())])

    def _crashed(self, crash: Crashed) -> Crashed:
        """Count what was raised, and let go of the peers that may wait for this rank in vain."""
        in_group = self._is_in_group() or crash.check == JOINING
        order = self.channel.next_in_order()
        crash = msgspec.structs.replace(crash, order=order, went_on=not in_group)
        self.journal.write([crash])
        if in_group:
            self.whereabouts.crash = crash
            self.channel.announce(RAISED, self.seat)
            abort_group()
            self.context = replace(self.context, joining=None, target=None)
        return crash

    def _is_in_group(self) -> bool:
        """Return whether others may wait for this rank in collectives."""
        return self.context.joining is not None

    def _measure(self, check: Check, measure: Callable[[], Facts]) -> Entry:
        self._begin(check.id)
        started = time.perf_counter()
        entry = outcome(check.id, measure, started)
        if isinstance(entry, Crashed):
            entry = self._crashed(entry)
        else:
            self.journal.write([entry])
        self.whereabouts.leave()
        return entry


def facts_or_raise(facts: Callable[[], Facts], raised: Exception | None) -> Callable[[], Facts]:
    """Return what gives an observer's facts, or raises what the observer has raised."""

    def measure() -> Facts:
        if raised is not None:
            raise raised
        return facts()

    return measure
