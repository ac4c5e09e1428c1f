"""One rank's part of a run: meet the others, measure stage by stage, tell, leave."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import msgspec
import torch

from ddpcheck.catalogue import catalogue, select
from ddpcheck.check import Check, Context, Facts, Joining, Skip, Stage
from ddpcheck.engine.channel import ENDED, RAISED, Assignment, Channel, Decision, End
from ddpcheck.engine.entries import (
    Began,
    Crashed,
    Ended,
    Entry,
    Journal,
    Measured,
    Refused,
    Skipped,
)
from ddpcheck.engine.group import abort_group, device_of, join_group, leave_group, presence
from ddpcheck.engine.leader import Leader, OnReport, Task
from ddpcheck.engine.plan import Step, probe_deadline_s, steps_of
from ddpcheck.engine.rehearsal import STEPS, rehearse
from ddpcheck.engine.sentinel import Sentinel, Whereabouts
from ddpcheck.errors import DdpcheckError, ExitCode, LaunchError, TargetError
from ddpcheck.launch.identity import Identity, identity
from ddpcheck.launch.meeting import join_store, key_prefix, open_store
from ddpcheck.launch.stores import PrefixStore, Store
from ddpcheck.settings import RunSettings
from ddpcheck.target.live import go_live
from ddpcheck.target.load import Factory, build, find_factory, is_built_in
from ddpcheck.watch.stream import EventStream

# What a rank does between its checks, named after the stage as a check would be.
JOINING = f"{Stage.COLLECTIVES.value}/joining-the-group"
TRAINING = f"{Stage.REHEARSAL.value}/training"
# The process that hosts the store waits this long for the others to leave first.
FAREWELL_S = 10.0
# A rank that waits for the leader allows it this much more than the work's own deadline.
LEADER_SLACK_S = 15.0


def run_rank(settings: RunSettings, run_id: str, on_report: OnReport) -> int:
    """Take part in the run as the rank that the environment names; return the exit code.

    ``on_report`` is called once, on the leader. Raises UsageError or LaunchError when this
    process cannot take part at all.
    """
    who = identity(os.environ)
    deadline_s = probe_deadline_s(settings.deadline_s, settings.profile, who.world_size)
    steps = steps_of(select(catalogue(), settings.select, settings.skip))
    hosted = open_store(who, deadline_s)

    def new_store() -> Store:
        return PrefixStore(key_prefix(who), join_store(who, deadline_s))

    store = new_store()
    channel = Channel(store)
    present = presence(who, settings.backend)
    member = channel.arrive(present)

    leader = Leader(lambda: Channel(new_store()), Task(who, settings, steps, run_id, on_report))

    def lead() -> None:
        if channel.claim_lead(member):
            leader.start()

    assignment = _assignment(channel, who, deadline_s, lead)
    if assignment is None:
        end = channel.hear(ENDED, End, LEADER_SLACK_S)
        leader.join()
        _farewell(channel, member, is_host=hosted is not None)
        return end.exit_code if end else _no_leader(who, deadline_s)
    if member >= len(assignment.seats):
        raise LaunchError(f"rank {who.rank} on {who.host} came when the ranks were complete")
    seat = assignment.seats[member]
    work = RankWork(settings, who, store, assignment, seat, steps)
    sentinel = Sentinel(Channel(new_store()), seat, work.whereabouts)
    sentinel.start()
    work.journal.write([present])
    code = work.run()
    work.whereabouts.retire()
    sentinel.join()
    leader.join()
    _farewell(channel, member, is_host=hosted is not None)
    return code


@dataclass
class RankWork:
    """The stages of a run on one rank."""

    settings: RunSettings
    who: Identity
    store: Store
    assignment: Assignment
    seat: int
    steps: Sequence[Step]
    whereabouts: Whereabouts = field(default_factory=Whereabouts)

    def __post_init__(self) -> None:
        self.journal = Journal(Path(self.assignment.run_dir), self.seat)
        self.channel = Channel(self.store)
        self.factory: Factory | None = None
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
            store=PrefixStore("probes", self.store),
        )

    def run(self) -> int:
        """Go through the stages until the end is announced; return the exit code."""
        for step in self._steps_to_take():
            told = [*self._stage(step), Ended(step.stage.value)]
            self.channel.tell(f"{step.stage.value}/{self.seat}", told)
            self.journal.write(told[-1:])
            patience_s = step.deadline_s(self.assignment.deadline_s) + LEADER_SLACK_S
            decision = self.channel.hear(f"decision/{step.stage.value}", Decision, patience_s)
            if decision is None or not decision.go:
                break
        end = self.channel.hear(ENDED, End, LEADER_SLACK_S)
        leave_group()
        return end.exit_code if end else ExitCode.INCOMPLETE

    def _steps_to_take(self) -> list[Step]:
        complete = self.assignment.complete
        return [step for step in self.steps if complete or step.stage is Stage.LAUNCH]

    def _stage(self, step: Step) -> list[Entry]:
        if step is self.steps[0] and self._needs_target():
            refusal = self._find_target()
            if refusal:
                return [refusal]
        if step.stage is Stage.DEVICES and self.context.on_gpu:
            torch.cuda.set_device(self.context.device)
        if step.stage.order >= Stage.COLLECTIVES.order and self.context.joining is None:
            self._join()
        return list(self._entries(step))

    def _entries(self, step: Step) -> Iterator[Entry]:
        if step.stage is Stage.REHEARSAL:
            yield from self._rehearse(step)
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
        return None

    def _join(self) -> None:
        started = time.perf_counter()
        self._begin(JOINING)
        error = join_group(self.who, self.context)
        self.whereabouts.leave()
        took_s = round(time.perf_counter() - started, 4)
        self.context = replace(self.context, joining=Joining(self.context.backend, took_s, error))

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
        except Exception:
            self._let_peers_go()
        finally:
            self.whereabouts.leave()
        for check in step.observers:
            raised = stream.raised.get(check.id)
            yield self._measure(check, _facts_or_raise(observers[check.id].facts, raised))

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
        except Exception as error:
            stream.emit("raise", 0, error)
            raise
        rehearse(live, STEPS[self.settings.profile], stream)
        self.context = replace(self.context, target=live)

    def _begin(self, what: str) -> None:
        self.whereabouts.enter(what, self.assignment.deadline_s)
        self.journal.write([Began(what, time.time())])

    def _let_peers_go(self) -> None:
        """Tell that peers may wait for this rank in a collective that it will never enter."""
        self.channel.tell(RAISED, [Ended(str(self.seat))])
        abort_group()
        self.context = replace(self.context, joining=None, target=None)

    def _measure(self, check: Check, measure: Callable[[], Facts]) -> Entry:
        self._begin(check.id)
        started = time.perf_counter()
        entry = _outcome(check.id, measure, started)
        if isinstance(entry, Crashed) and self.context.joining is not None:
            self._let_peers_go()
        self.whereabouts.leave()
        self.journal.write([entry])
        return entry


def _outcome(check_id: str, measure: Callable[[], Facts], started: float) -> Entry:
    try:
        facts = measure()
    except Skip as skip:
        return Skipped(check_id, str(skip))
    except DdpcheckError as error:
        return Refused(str(error))
    except Exception as error:
        line = f"{type(error).__name__}: {' '.join(str(error).split())[:500]}"
        return Crashed(check_id, line, traceback.format_exc(limit=-6))
    took_s = round(time.perf_counter() - started, 4)
    return Measured(check_id, msgspec.to_builtins(facts), took_s)


def _facts_or_raise(facts: Callable[[], Facts], raised: Exception | None) -> Callable[[], Facts]:
    def measure() -> Facts:
        if raised is not None:
            raise raised
        return facts()

    return measure


def _assignment(
    channel: Channel, who: Identity, deadline_s: float, lead: Callable[[], None]
) -> Assignment | None:
    """Return the leader's assignment; the first to see that nobody leads, leads."""
    if who.rank == 0:
        lead()
    patience_s = deadline_s + LEADER_SLACK_S
    if who.rank != 0 and not channel.poll(["leader"], deadline_s):
        lead()
    return channel.hear_or_end("assignment", Assignment, patience_s)


def _no_leader(who: Identity, deadline_s: float) -> int:
    sys.stderr.write(
        f"ddpcheck: rank {who.rank} on {who.host}: no verdict came within {deadline_s:.0f} s; "
        "the leader was lost or never came\n"
    )
    return ExitCode.INCOMPLETE


def _farewell(channel: Channel, member: int, *, is_host: bool) -> None:
    with suppress(RuntimeError):  # the host of the store may have gone first
        channel.tell(f"farewell/{member}", [])
        if is_host:
            others = [f"farewell/{other}" for other in range(channel.arrivals())]
            channel.poll(others, FAREWELL_S)
