"""A thread beside the rank's work: it beats, tells when a check overruns, and ends the process."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ddpcheck.engine.announcements import INQUEST, RAISED, STOP, End
from ddpcheck.engine.channel import Channel
from ddpcheck.engine.entries import Journal, Testified
from ddpcheck.engine.neighbours import Neighbour, Neighbours, exit_of
from ddpcheck.engine.outcomes import testimony_on_files
from ddpcheck.engine.plan import BEAT_S, PAUSE_S, silence_s, slowness
from ddpcheck.engine.signals import SignalMail
from ddpcheck.engine.stacks import answer_here
from ddpcheck.engine.storeless import Storeless, leave_at_once
from ddpcheck.engine.whereabouts import Whereabouts
from ddpcheck.errors import ExitCode
from ddpcheck.launch.host import ENDED
from ddpcheck.measures.testimony import State, Testimony

# After the verdict a rank has this long to leave by itself: it may close NCCL, or be stuck.
LEAVE_S = 1.5
LONG_S = 3600.0
# Once a rank has raised, the others' checks end within this time or will not end.
RAISED_GRACE_S = 3.0
# At an inquest a neighbour has this long to speak for itself, and is looked after this often;
# one that lives is asked for its stack, and is mute when it has not spoken until then.
PATIENCE_S = 0.3
HEARING_BEAT_S = 0.05
# Replicas are compared this often while a script runs.
COMPARE_S = 0.5
MUTE_S = 0.6


@dataclass
class Post:
    """Where a sentinel stands: whom it watches over, and whom it calls."""

    member: int
    machine: str
    world_size: int
    deadline_s: float
    lead: Callable[[], None]
    journal: Journal | None = None
    seats: tuple[int, ...] = ()
    run_dir: str = ""


class Sentinel:
    """Watches the main thread and the neighbours, with a store client of its own."""

    def __init__(
        self,
        channel: Channel,
        post: Post,
        where: Whereabouts,
        mail: SignalMail,
        storeless: Storeless,
    ) -> None:
        self._storeless = storeless
        self._thread = threading.Thread(target=self._run, name="ddpcheck sentinel", daemon=True)
        self._channel = channel
        self._post = post
        self._where = where
        self._mail = mail
        self._neighbours = Neighbours()
        self._news = -1
        self._known = 0
        self._told_of = -1
        self._signal = ""
        self._asked_at = 0.0
        self._spoke = False
        self._stands = False
        self._has_raised = False
        self._moments = (0, 0)
        self._compared = 0.0
        self._spoken_for: set[int] = set()
        self._asked: set[int] = set()
        self._leader = ""
        self._leader_is_gone = False
        self._leader_beat = ("", time.monotonic())

    def start(self) -> None:
        """Watch in a thread of its own."""
        self._thread.start()

    def join(self) -> None:
        """Wait until the thread, told by ``Whereabouts.retire``, has ended.

        A thread that is inside the store when the interpreter ends would abort the process.
        """
        self._thread.join()

    def _run(self) -> None:
        answer_here()
        try:
            end = self._watch()
        except RuntimeError:
            # The store is gone, so no verdict can be heard any more.
            end = self._storeless.conclude(self._signal)
        waits = end is not None and self._post.member in end.kept_waiting
        if end is not None and waits and end.goes_on:
            self._spare(end.exit_code)
            return
        if end is None or (not waits and self._where.retirement in self._wait_for_retirement()):
            return
        leave_at_once(end)

    def _spare(self, exit_code: int) -> None:
        """Let the script go on; of the run nothing is left that would hear a signal."""
        self._where.spared = exit_code
        while self._where.retirement not in self._mail.wait([self._where.retirement], LONG_S):
            if self._mail.read():
                os._exit(ExitCode.INTERRUPTED)

    def _wait_for_retirement(self) -> list[int]:
        until = time.monotonic() + LEAVE_S
        while (left_s := until - time.monotonic()) > 0:
            ready = self._mail.wait([self._where.retirement], left_s)
            self._mail.read()
            if self._where.retirement in ready:
                return ready
        return []

    def _watch(self) -> End | None:
        """Return the end of the run, or None when the main thread has left before it."""
        beat_s = BEAT_S * slowness(self._post.world_size)
        last = time.monotonic()
        while True:
            left_s = min(beat_s, self._where.until - time.monotonic())
            if self._where.overran and self._told_of == self._where.entered:
                left_s = beat_s
            if self._asked_at:
                left_s = HEARING_BEAT_S * slowness(self._post.world_size)
            descriptors = [self._where.retirement, *self._neighbours.descriptors]
            ready = self._mail.wait(descriptors, left_s)
            if self._where.retirement in ready:
                if self._channel.has(ENDED):
                    self._end_the_condemned(self._channel.read_message(ENDED, End))
                return None
            self._storeless.turns += 1
            now = time.monotonic()
            if now - last > beat_s + self._post.deadline_s / 2:
                self._where.note_stop(now - last)
            if now - last > beat_s + PAUSE_S:
                self._where.extend(now - last)
            last = now
            if self._where.overran and self._told_of != self._where.entered:
                self._where.put_off_the_end()  # before the store, which may be slow to answer
            self._look_around(ready)
            end = self._listen()
            if end is not None:
                self._end_the_condemned(end)
                return end

    def _look_around(self, ready: list[int]) -> None:
        self._channel.beat(self._post.member, self._where.check)
        signal = self._mail.read()
        if signal and not self._signal:
            self._signal = signal
            self._channel.ask_to_stop(signal)
        for neighbour in self._neighbours.ended(ready):
            self._tell_of_the_gone(neighbour)
        self._tell_of_overrunning()
        self._tell_of_standing()
        self._tell_of_moments()
        self._watch_the_leader()

    def _tell_of_overrunning(self) -> None:
        """Tell it once, and take it back if the check ends: it was late, and nothing else."""
        check = self._where.entered if self._where.overran else -1
        if self._told_of not in (-1, check):
            self._told_of = -1
            self._channel.recover()
        if self._told_of != check:
            self._told_of = check
            self._channel.overrun()

    def _tell_of_standing(self) -> None:
        """Tell what the observers have seen, too: the main thread cannot any more."""
        standstill = self._where.standstill
        if standstill is None or not self._where.busy or self._asked_at:
            return
        standstill.look(self._where.calls)
        if standstill.stands == self._stands:
            return
        self._stands = standstill.stands
        if self._stands:
            seen = self._where.seen_so_far() if self._where.seen_so_far else []
            told = Testified(self._where.testimony(self._signal))
            self._channel.stand(self._post.member, [*seen, told])
        else:
            self._channel.move(self._post.member)

    def _tell_of_moments(self) -> None:
        """Tell of the replica as it is after each step, while the script runs."""
        now = time.monotonic()
        if self._where.moments_since is None or not self._where.busy or self._asked_at:
            return
        if now - self._compared < COMPARE_S:
            return
        self._compared = now
        number, since = self._moments
        told = self._where.moments_since(since)
        if told is not None and told.digests:
            self._channel.tell_moments(self._post.member, number, told)
            self._moments = number + 1, since + len(told.digests)

    def _listen(self) -> End | None:
        news = self._channel.news()
        if news != self._news:
            self._news = news
            self._leader = self._channel.leader()
            # Whoever tells a fate makes news.
            self._leader_is_gone = bool(self._leader) and self._channel.has_fate(int(self._leader))
            self._meet_the_neighbours()
            if self._channel.has(ENDED):
                return self._channel.read_message(ENDED, End)
            self._has_raised = self._channel.has(RAISED)
            if self._where.busy and self._has_raised:
                self._where.hurry(RAISED_GRACE_S)
            if not self._asked_at and self._channel.has(INQUEST):
                self._asked_at = time.monotonic()
            if not self._signal and self._channel.has(STOP):
                self._signal = self._channel.read_message(STOP, str)
        if self._has_raised and self._where.standstill is not None:
            # This rank's script may have begun after another one's had raised.
            self._where.hurry(RAISED_GRACE_S)
        if self._asked_at:
            self._testify()
        return None

    def _meet_the_neighbours(self) -> None:
        known = self._channel.arrivals_on(self._post.machine)
        if known != self._known:
            mates = self._channel.members_on(self._post.machine, known)
            self._known = len(mates)  # one that has not written its pid yet makes news when it does
            for neighbour in self._neighbours.watch(self._post.member, mates):
                self._tell_of_the_gone(neighbour)

    def _testify(self) -> None:
        if not self._spoke:
            self._spoke = True
            self._where.put_off_the_end()
            testimony = self._where.testimony(self._signal)
            self._channel.testify(self._post.member, testimony)
            if self._post.journal is not None:
                self._post.journal.write([Testified(testimony)])
        asked_s = time.monotonic() - self._asked_at
        for neighbour in self._neighbours.living() if asked_s > PATIENCE_S else ():
            if neighbour.member in self._spoken_for:
                continue
            if self._channel.has_spoken(neighbour.member):
                self._spoken_for.add(neighbour.member)
                continue
            seen = self._seen_of(neighbour)
            if seen.state is not State.SILENT or asked_s > MUTE_S:
                self._spoken_for.add(neighbour.member)
                self._channel.tell_fate(neighbour.member, seen)
            elif neighbour.member not in self._asked:
                self._ask_for_stack(neighbour)

    def _ask_for_stack(self, neighbour: Neighbour) -> None:
        self._asked.add(neighbour.member)
        if self._channel.claim(f"stack/{neighbour.member}", str(self._post.member)):
            neighbour.ask_for_stack()

    def _tell_of_the_gone(self, neighbour: Neighbour) -> None:
        ended_by = exit_of(neighbour.pid)
        testimony = self._seen_of(neighbour, ended_by, self._channel.next_in_order())
        self._channel.tell_fate(neighbour.member, testimony)
        neighbour.close()

    def _seen_of(self, neighbour: Neighbour, ended_by: str = "", order: int = 0) -> Testimony:
        """Return what this process can say of another one on its machine."""
        state = neighbour.state
        return testimony_on_files(
            rank_file(self._post, neighbour.member, ".box"),
            rank_file(self._post, neighbour.member, ".stack"),
            state,
            ended_by,
            order,
        )

    def _watch_the_leader(self) -> None:
        leader = self._leader
        seen = f"{leader} {self._channel.last_beat(leader) if leader else ''}"
        now = time.monotonic()
        if seen != self._leader_beat[0]:
            self._leader_beat = (seen, now)
        silent_s = now - self._leader_beat[1]
        if self._leader_is_gone or silent_s > silence_s(self._post.deadline_s):
            self._leader_beat = (seen, now)
            if self._channel.succeed(leader, self._post.member):
                self._leader, self._leader_is_gone = str(self._post.member), False
                if leader:
                    self._channel.alarm()  # the one that led is among those that cannot go on
                self._post.lead()

    def _end_the_condemned(self, end: End) -> None:
        for neighbour in self._neighbours.living():
            if neighbour.member in end.condemned:
                neighbour.end()


def rank_file(post: Post, member: int, suffix: str) -> Path | None:
    """Return the file of that ending of another member's seat, once seats are known."""
    if member >= len(post.seats):
        return None
    return Path(post.run_dir) / "ranks" / f"{post.seats[member]}{suffix}"
