"""Thousands of ranks in a few processes, that speak to a real store as real ranks do.

Real are: the store's host, the leader, each rank's two connections, the turns of its ``Sentinel``, which
beats, listens and looks after the leader at the product's pace, and the calls of its main thread, which
arrives, hears its seat, tells each stage, hears the decision and the end, and says farewell.

Simulated are: the checks, which take no time here and whose facts ``many_ranks`` makes beforehand; hosts,
which are names; threads, for the ranks of a process take turns in two, one for what their main threads ask
and one for their sentinels (with two threads a rank, they would wait for each other's GIL); the machine's
cores, which they share with the store and the leader; and the network, which is the loopback. What probes
themselves write into the store is left out, and so are files of ranks, signals and agents.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

import msgspec
from many_ranks import A_HOST, SAMPLE, entries_of, host_of

from ddpcheck.check import Stage
from ddpcheck.engine.announcements import Decision, End
from ddpcheck.engine.channel import Channel
from ddpcheck.engine.entries import Ended, Entry, Present, packed_for_store
from ddpcheck.engine.leader import Task
from ddpcheck.engine.plan import BEAT_S, slowness
from ddpcheck.engine.rank import task_of
from ddpcheck.engine.same_settings import settings_told
from ddpcheck.engine.sentinel import Post, Sentinel
from ddpcheck.engine.signals import SignalMail
from ddpcheck.engine.storeless import Storeless
from ddpcheck.engine.whereabouts import Whereabouts
from ddpcheck.launch.host import ENDED
from ddpcheck.launch.identity import Identity
from ddpcheck.launch.meeting import join_store, key_prefix
from ddpcheck.launch.stores import PrefixStore, Store
from ddpcheck.measures.testimony import State, Testimony
from ddpcheck.report import Report, read_report
from ddpcheck.settings import RunSettings

# Nothing takes so long but a fault.
PATIENCE_S = 120.0
GONE = Testimony(state=State.GONE, check=Stage.REHEARSAL.value, ended_by="SIGKILL", order=1)


@dataclass(frozen=True)
class Job:
    """What all ranks of a simulated run know; ``lost`` is a rank that dies in the rehearsal, or -1."""

    world_size: int
    port: int
    report_dir: str
    lost: int = -1

    def identity(self, rank: int) -> Identity:
        """Return who a rank is."""
        return Identity(
            rank=rank,
            local_rank=rank % A_HOST,
            world_size=self.world_size,
            host=host_of(rank),
            master_addr="127.0.0.1",
            master_port=self.port,
            launcher="slurm",
            store_is_hosted=False,
            attempt="0",
        )

    def task(self, rank: int, on_report: Any = None) -> Task:
        """Return what there would be to lead for a rank."""
        settings = RunSettings(report_dir=self.report_dir, backend="nccl")
        return task_of(self.identity(rank), settings, "ddpcheck-simulated", on_report)

    def new_store(self, rank: int) -> Store:
        """Return a new connection to the store, for one thread of a rank."""
        who = self.identity(rank)
        return PrefixStore(key_prefix(who), join_store(who, PATIENCE_S))


class Mail(SignalMail):
    """No signals: those of this process are for all of its ranks."""

    def __init__(self) -> None:
        pass

    def read(self) -> str:
        """Return that no signal has come."""
        return ""


class SimulatedSentinel(Sentinel):
    """The product's, but for what it does to its process, in which hundreds live here."""

    def turn(self) -> bool:
        """Do what the product's does in one turn; return whether the run goes on."""
        self._look_around([])
        return self._listen() is None


@dataclass(frozen=True)
class Words:
    """What a rank will tell: who it is, and the text of each stage."""

    present: Present
    stages: Mapping[str, bytes]

    def of(self, stage: str) -> bytes:
        """Return what is told of a stage; of one that the sample lacks, that it has ended."""
        return self.stages.get(stage) or _lines([Ended(stage)])


def words_of(sample: Report, rank: int, world_size: int, settings: Mapping[str, str]) -> Words:
    """Return what one rank of a healthy job of so many will tell."""
    entries = iter(entries_of(sample, rank, world_size, odd=False))
    present = next(entries)
    assert isinstance(present, Present)
    stages: dict[str, bytes] = {}
    told: list[Entry] = []
    for entry in entries:
        told.append(entry)
        if isinstance(entry, Ended):
            stages[entry.stage] = _lines(told)
            told = []
    return Words(msgspec.structs.replace(present, settings=settings, pid=os.getpid()), stages)


def _lines(entries: Sequence[Entry]) -> bytes:
    # As ``tell`` packs them; the sample holds no secrets to look for, and only numbers that JSON knows.
    return packed_for_store(b"".join(msgspec.json.encode(each) + b"\n" for each in entries))


class SimulatedRank:
    """One rank: what its main thread and its sentinel ask, on a connection each."""

    def __init__(self, job: Job, task: Task, rank: int, words: Words) -> None:
        self._job = job
        self._task = task
        self._rank = rank
        self._words = words
        self._store = job.new_store(rank)
        self.channel = Channel(self._store)
        self._beside = Channel(job.new_store(rank))
        self._where = Whereabouts()
        self._storeless = Storeless(task, self._where)
        self._member = self._seat = -1
        self._seats: Sequence[int] = ()
        self.sentinel: SimulatedSentinel | None = None
        self.exit_code = -1

    @property
    def turns(self) -> int:
        """Return how often the sentinel has beaten so far."""
        return self._storeless.turns

    @property
    def is_lost(self) -> bool:
        """Return whether this rank has died."""
        return self._seat == self._job.lost >= 0 and self._where.check.startswith("rehearsal")

    def arrive(self) -> None:
        """Come to the roll call; from now on the sentinel may take its turns."""
        self._member = self.channel.arrive(self._words.present, os.getpid(), host_of(self._rank))
        post = Post(
            member=self._member,
            machine=host_of(self._rank),
            world_size=self._job.world_size,
            deadline_s=self._task.deadline_s,
            lead=self.leads,
        )
        self.sentinel = SimulatedSentinel(self._beside, post, self._where, Mail(), self._storeless)
        if self._rank == 0 and self.channel.succeed("", self._member):
            self.leads()

    def leads(self) -> None:
        """Hear that this rank is to lead: only rank 0 does, unless the run is too slow."""
        raise AssertionError(f"rank {self._rank} had to take over")

    def turn(self) -> bool:
        """Have the sentinel beat and listen, once; return whether it goes on."""
        if self.sentinel is None or self.is_lost:
            return True
        self._storeless.turns += 1
        return self.sentinel.turn()

    def hear_seats(self) -> None:
        """Hear which seat this rank has."""
        assignment = self.channel.hear_seats(PATIENCE_S)
        self._seats = assignment.seats if assignment else ()
        self._seat = self._seats[self._member]

    def tell(self, stage: str) -> None:
        """Tell a stage."""
        self._where.check = f"{stage}/simulated"
        if self.is_lost:
            return
        if stage == Stage.REHEARSAL.value:
            if self._seat == self._job.lost + 1 > 0:
                self.channel.tell_fate(self._seats.index(self._job.lost), GONE)
            elif self._store.add("met", 1) == self._job.world_size:
                self._store.set("all-met", "")
        self._store.set(f"{stage}/{self._seat}", cast("str", self._words.of(stage)))

    def hear(self, stage: str) -> bool:
        """Hear whether the run goes on after a stage."""
        decision = self.channel.hear(f"decision/{stage}", Decision, PATIENCE_S)
        return decision is not None and decision.go

    def hear_end(self) -> None:
        """Hear the end, and leave."""
        end = self.channel.hear(ENDED, End, PATIENCE_S)
        self.exit_code = end.exit_code if end else -1
        with suppress(RuntimeError):  # the store may leave before
            self.channel.tell(f"farewell/{self._member}", [])


class Crowd:
    """Ranks of one process: their main threads take turns in one thread, their sentinels in another."""

    def __init__(self, ranks: Sequence[SimulatedRank], task: Task, world_size: int) -> None:
        self._ranks = ranks
        self._task = task
        self._pace_s = BEAT_S * slowness(world_size)
        self._beats = threading.Thread(target=self._beat)

    def live(self) -> None:
        """Take part in the run to its end."""
        self._beats.start()
        for rank in self._ranks:
            rank.arrive()
        for rank in self._ranks:
            rank.hear_seats()
        for step in self._task.steps:
            for rank in self._ranks:
                rank.tell(step.stage.value)
            heard = [rank.hear(step.stage.value) for rank in self._ranks]
            if not all(heard):
                break
        self._beats.join()
        for rank in self._ranks:
            rank.hear_end()

    def _beat(self) -> None:
        """Give each sentinel its turn, evenly over the time between two beats of one."""
        goes_on = True
        while goes_on:
            began = time.monotonic()
            for at, rank in enumerate(self._ranks):
                due = began + at * self._pace_s / len(self._ranks)
                time.sleep(max(0.0, due - time.monotonic()))
                with suppress(RuntimeError):
                    goes_on = rank.turn() and goes_on
            time.sleep(max(0.0, began + self._pace_s - time.monotonic()))


def words_of_all(job: Job, ranks: Sequence[int]) -> dict[int, Words]:
    """Return what each of these ranks will tell."""
    task = job.task(0)
    told = settings_told(task.settings, task.last_words)
    sample = read_report(SAMPLE)
    return {rank: words_of(sample, rank, job.world_size, told) for rank in ranks}
