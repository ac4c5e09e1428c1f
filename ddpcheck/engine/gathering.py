"""What the leader waits for: every rank's word on a stage, or the reason why none will come."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import msgspec

from ddpcheck.check import Stage
from ddpcheck.engine.announcements import INQUEST, STOP
from ddpcheck.engine.channel import SHORTEST_PAUSE_S, Channel
from ddpcheck.engine.comparing import Comparing
from ddpcheck.engine.entries import Entry, Testified, has_ended
from ddpcheck.engine.long_wait import LongWait, told_wait
from ddpcheck.engine.outcomes import testimony_told
from ddpcheck.engine.plan import BEAT_S, PAUSE_S, Step, silence_s, slowness
from ddpcheck.engine.progress import show_apart, show_wait
from ddpcheck.measures.inquest import is_deadlock
from ddpcheck.measures.testimony import NO_SIGN, State, Testimony

# The first beat may be of a look that had begun before.
LOOKS_COUNT = 2
POLL_S = 0.1
# Once one rank cannot go on, the others have this long to find out the same.
SETTLE_S = 0.6
# A script's rank whose peer has gone raises, and then tells what it saw: seconds on busy cores.
SCRIPT_SETTLE_S = 4.0
# At the inquest, the living have this long to speak, for themselves and for the mute beside them.
HEARING_S = 1.0
# How long the parent of local ranks takes to say how one of them ended.
EXIT_S = 0.5
# Beats are looked at this often: they matter only to a rank that has been silent for long.
BEATS_S = 0.5


class Gathering:
    """The seats of a run as the leader hears them; ``seats`` are in the order of the members.

    A leader that has taken over has already seen that the run cannot go on: nothing need
    settle.
    """

    def __init__(
        self, channel: Channel, seats: Sequence[int], deadline_s: float, *, taken_over: bool
    ) -> None:
        self._settle_s = 0.0 if taken_over else SETTLE_S
        self._channel = channel
        self._deadline_s = deadline_s
        self._members = {seat: member for member, seat in enumerate(seats)}
        self._beats: dict[int, tuple[str, float]] = {}
        self._looked = 0.0
        self._looks: dict[int, tuple[str, int]] = {}
        self._comparing = Comparing(channel, self._members, show_apart)
        self._long_wait = LongWait()
        self._settled_at = self._alarmed_at = float("inf")
        self._compared = 0.0

    def hear(self, step: Step) -> tuple[dict[int, list[Entry]], list[int]]:
        """Return what each seat told of the stage, and the seats whose word cannot be read.

        Returns early, with fewer seats, when a rank is known not to come through.
        """
        keys = {seat: f"{step.stage.value}/{seat}" for seat in self._members}
        whole = self._await(list(keys.values()), step)
        late = set() if whole else set(self._without(list(keys.values())))
        here = [seat for seat in keys if seat not in late]
        told = dict(zip(here, self._channel.read([keys[seat] for seat in here]), strict=True))
        return told, [seat for seat, each in told.items() if not has_ended(each, step.stage.value)]

    def hold_inquest(
        self, told: Mapping[int, Sequence[Entry]], garbled: Sequence[int], step: Step
    ) -> dict[int, Testimony]:
        """Return what is known of each seat; ``told`` is what they have told so far."""
        self._channel.announce(INQUEST, True)
        self._wait_for_the_living()
        found = self._found(told)
        for seat, said in found.items():
            if said.state is State.SILENT and not said.check:  # it entered one after its last beat
                found[seat] = msgspec.structs.replace(said, check=step.stage.value)
            # It lives, is in no check, and has not come to the end of the stage.
            if said.state is State.ENDED and not has_ended(told.get(seat, ()), step.stage.value):
                check = said.check or step.stage.value
                found[seat] = msgspec.structs.replace(said, state=State.BUSY, check=check)
        for seat in garbled:
            said = msgspec.structs.replace(found[seat], state=State.GARBLED, check=step.stage.value)
            found[seat] = said
        return found

    def condemned(self, testimonies: Mapping[int, Testimony]) -> list[int]:
        """Return the members that cannot leave by themselves."""
        mute = (State.STOPPED, State.SILENT)
        return [self._members[seat] for seat, each in testimonies.items() if each.state in mute]

    def _await(self, keys: Sequence[str], step: Step) -> bool:
        until = time.monotonic() + step.deadline_s(self._deadline_s) + SETTLE_S
        last = time.monotonic()
        # A script takes minutes, and the cores that it trains on.
        pause_s = POLL_S if step.stage is Stage.WATCH else SHORTEST_PAUSE_S
        while not self._channel.poll(keys, POLL_S, pause_s):
            now = time.monotonic()
            if now - last > PAUSE_S:
                until += now - last
                self._beats.clear()
            last = now
            if not self._channel.alarms():
                self._settled_at = self._alarmed_at = float("inf")
            elif self._settled_at == float("inf"):
                self._settled_at, self._alarmed_at = now + self._settle_s, now
            elif now > self._settled_at and self._may_tell_yet(keys, step):
                self._settled_at = now + BEATS_S
            if step.stage is Stage.WATCH and now - self._compared > BEATS_S:
                self._compared = now
                self._comparing.look()
            over = now > min(until, self._settled_at)
            if over or self._has_silent_seat(now) or self._all_stand(keys):
                return self._channel.poll(keys, 0.0)
        return True

    def _may_tell_yet(self, keys: Sequence[str], step: Step) -> bool:
        """Return whether a script's rank that has not gone may come to tell what it saw."""
        if step.stage is not Stage.WATCH or self._channel.has(STOP):
            return False
        if time.monotonic() - self._alarmed_at > SCRIPT_SETTLE_S:
            return False
        return any(not self._channel.has_fate(self._members[s]) for s in self._without(keys))

    def _all_stand(self, keys: Sequence[str]) -> bool:
        """Return whether no script moves any more, and somebody is to blame.

        All in one collective may be carrying it out, slowly; who has told will not come to it.
        """
        standing = self._channel.standing()
        # Each question costs the store time: where nobody stands, as usual, no more are asked.
        waiting = self._without(keys) if standing else []
        if self._long_wait.is_due(standing, len(waiting), time.monotonic()):
            show_wait(told_wait(self._standing(waiting), waiting))
        found = self._standing(waiting) if len(waiting) <= standing else {}
        if not found or len(found) < len(waiting):
            self._looks.clear()
            return False
        if not self._have_looked_again(waiting):
            return False
        return len(waiting) < len(keys) or is_deadlock(found)

    def _without(self, keys: Sequence[str]) -> list[int]:
        """Return the seats whose key is not there yet."""
        here = set(self._channel.those_there(keys))
        return [seat for seat, key in zip(self._members, keys, strict=True) if key not in here]

    def _have_looked_again(self, seats: Sequence[int]) -> bool:
        """Return whether each has looked at its script since all seemed to stand.

        One that stood may have gone on, and be about to tell. It beats before each look.
        """
        beats = self._channel.last_beats(self.members_of(seats))
        for seat in seats:
            beat = beats.get(self._members[seat], "")
            known, count = self._looks.get(seat, (beat, 0))
            self._looks[seat] = (beat, count + (beat != known))
        return all(self._looks[seat][1] >= LOOKS_COUNT for seat in seats)

    def _standing(self, seats: Sequence[int]) -> dict[int, Testimony]:
        told = self._told_under({seat: f"standing/{self._members[seat]}" for seat in seats})
        said = ((seat, e) for seat, each in told.items() for e in each if isinstance(e, Testified))
        return {seat: entry.testimony for seat, entry in said}

    def seen_so_far(self, seats: Sequence[int]) -> dict[int, list[Entry]]:
        """Return what scripts have shown that stand still, or what was kept of one that was ended."""
        told = self._told_under({seat: f"standing/{self._members[seat]}" for seat in seats})
        return told | self._told_under({seat: f"kept/{seat}" for seat in seats if seat not in told})

    def shown_by(self, seats: Sequence[int]) -> dict[int, list[Entry]]:
        """Return what the observers of scripts that stand still saw, and nothing else."""
        told = self._told_under({seat: f"standing/{self._members[seat]}" for seat in seats})
        return {
            seat: [entry for entry in each if not isinstance(entry, Testified)]
            for seat, each in told.items()
        }

    def _told_under(self, keys: Mapping[int, str]) -> dict[int, list[Entry]]:
        """Return what stands under these keys, of each seat that has told something there."""
        seats = {key: seat for seat, key in keys.items()}
        here = self._channel.those_there(list(seats))
        told = zip(here, self._channel.read(here), strict=True)
        return {seats[key]: each for key, each in told if each}

    def members_of(self, seats: Sequence[int]) -> list[int]:
        """Return the members that have these seats."""
        return [self._members[seat] for seat in seats]

    def _has_silent_seat(self, now: float) -> bool:
        if now - self._looked < BEATS_S:
            return False
        self._looked = now
        beats = self._channel.last_beats(self._members.values())
        for seat, member in self._members.items():
            beat = beats.get(member, "")
            if seat not in self._beats or self._beats[seat][0] != beat:
                self._beats[seat] = (beat, now)
        return any(now - since > silence_s(self._deadline_s) for _, since in self._beats.values())

    def _wait_for_the_living(self) -> None:
        # Those that beat less often hear of the inquest later, and the mute ones' neighbours again later.
        late_s = BEAT_S * (slowness(len(self._members)) - 1)
        until = time.monotonic() + HEARING_S + 2 * late_s
        waited_for = set(self._members.values())
        while waited_for and time.monotonic() < until:
            waited_for -= self._channel.those_known(waited_for)
            time.sleep(POLL_S / 4)

    def _found(self, told: Mapping[int, Sequence[Entry]]) -> dict[int, Testimony]:
        """Return what is known of each seat, by what it has told where it can still say so."""
        known = self._channel.testimonies(self._members.values())
        beats = self._channel.last_beats(set(self._members.values()) - set(known))
        found: dict[int, Testimony] = {}
        for seat, member in self._members.items():
            said = known.get(member) or _without_a_word(beats.get(member, ""))
            ended = said.state is State.ENDED
            found[seat] = testimony_told(told.get(seat, ()), said) if ended else said
        return found

    def with_exits(
        self, testimonies: Mapping[int, Testimony], pids: Mapping[int, int]
    ) -> dict[int, Testimony]:
        """Return the testimonies with what the parent of local ranks knows of their ends."""
        whole = dict(testimonies)
        for seat, each in testimonies.items():
            if each.state is State.GONE and not each.ended_by:
                key = f"exit/{pids[seat]}"
                self._channel.poll([key], EXIT_S)
                whole[seat] = msgspec.structs.replace(each, ended_by=self._channel.heard(key))
        return whole

    @property
    def stopped_by(self) -> str:
        """Return the signal that asked the run to end, or ''."""
        return self._channel.read_message(STOP, str) if self._channel.has(STOP) else ""


def _without_a_word(beat: str) -> Testimony:
    _, _, check = beat.partition(" ")
    return Testimony(state=State.SILENT, check=check, ended_by=NO_SIGN)
