"""The control channel: what ranks tell the leader, and what the leader announces."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import TypeVar, cast

from torch.distributed import DistStoreError

from ddpcheck import jsontext
from ddpcheck.engine.announcements import ASSIGNMENT, ROLL_IS_OVER, STOP, Assignment
from ddpcheck.engine.entries import (
    Entry,
    pack,
    packed_for_store,
    unpack_sealed,
    unpacked_from_store,
)
from ddpcheck.launch.host import ARRIVALS, ENDED, PULSE
from ddpcheck.launch.stores import Store
from ddpcheck.measures.moments import Moments
from ddpcheck.measures.testimony import Testimony
from ddpcheck.secrecy.redaction import redacted

T = TypeVar("T")

# So many keys are read in one call: while the store puts an answer together, it hears nobody.
READ_AT_ONCE_COUNT = 128
SHORTEST_PAUSE_S = 0.002
LONGEST_PAUSE_S = 0.02


class Channel:
    """One thread's client of the store, within the keys of one run."""

    def __init__(self, store: Store) -> None:
        self._store = store
        # No key is ever removed: what was there once need not be asked for again.
        self._seen: set[str] = set()

    def arrive(self, present: Entry, pid: int, machine: str) -> int:
        """Tell who this process is and return its number in the order of arrival, from 0."""
        member = self._store.add(ARRIVALS, 1) - 1
        place = self._store.add(f"on/{machine}", 1) - 1
        self._store.set(f"on/{machine}/{place}", f"{member} {pid}")
        self._store.set(f"member/{member}", pack([present]).decode())
        self._make_news()
        return member

    def arrivals(self) -> int:
        """Return how many processes have come so far."""
        return self._store.add(ARRIVALS, 0)

    def arrivals_on(self, machine: str) -> int:
        """Return how many processes of this machine have come so far."""
        return self._store.add(f"on/{machine}", 0)

    def members_on(self, machine: str, count: int) -> list[tuple[int, int]]:
        """Return the member number and pid of the first ``count`` that came on this machine."""
        keys = [f"on/{machine}/{place}" for place in range(count)]
        values = self._values(self.those_there(keys))
        pairs = [value.decode().split() for value in values]
        return [(int(member), int(pid)) for member, pid in pairs]

    def leader(self) -> str:
        """Return the number of the member that leads, or ''."""
        return self.heard("leader")

    def succeed(self, leader: str, member: int) -> bool:
        """Return whether this member leads from now on, in place of ``leader``; '' is nobody."""
        now = self._store.compare_set("leader", leader, str(member))
        self._make_news()
        return now == str(member).encode()

    def claim(self, key: str, name: str) -> bool:
        """Return whether the key is claimed under this name: the first to claim it has it."""
        return self._store.compare_set(key, "", name) == name.encode()

    def beat(self, member: int, check: str) -> None:
        """Show that this member's process is alive, and in which check."""
        # The pulse of all is for the store's host: it leaves when nobody lives.
        self._store.set(f"beat/{member}", f"{self._store.add(PULSE, 1)} {check}")

    def last_beat(self, member: int | str) -> str:
        """Return the member's last beat, or ''; two that differ show that it lives."""
        return self.heard(f"beat/{member}")

    def last_beats(self, members: Iterable[int]) -> dict[int, str]:
        """Return the last beat of each of these members that has beaten."""
        keys = {f"beat/{member}": member for member in members}
        here = self.those_there(list(keys))
        beats = zip(here, self._values(here), strict=True)
        return {keys[key]: beat.decode() for key, beat in beats}

    def next_in_order(self) -> int:
        """Return the next number, from 1, in the order of all ranks' ends and exceptions."""
        return self._store.add("order", 1)

    def news(self) -> int:
        """Return a number that changes when there is something new to hear."""
        return self._store.add("news", 0)

    def alarm(self) -> None:
        """Tell the leader that a rank cannot go on."""
        self._store.add("alarms", 1)
        self._make_news()

    def alarms(self) -> int:
        """Return how often a rank could not go on, those included that overrun right now."""
        return self._store.add("alarms", 0) + self._store.add("overruns", 0)

    def overrun(self) -> None:
        """Tell the leader that a check of this rank takes too long."""
        self._store.add("overruns", 1)
        self._make_news()

    def recover(self) -> None:
        """Tell the leader that the check, which took too long, has ended after all."""
        self._store.add("overruns", -1)

    def stand(self, member: int, entries: Iterable[Entry]) -> None:
        """Tell that this member's script stands still in a collective, and all that is known there."""
        self.tell(f"standing/{member}", entries)
        self._store.add("standing", 1)

    def move(self, member: int) -> None:
        """Tell that this member's script has moved after all."""
        self._store.add("standing", -1)
        self.tell(f"standing/{member}", [])

    def standing(self) -> int:
        """Return how many members' scripts stand still right now."""
        return self._store.add("standing", 0)

    def tell_moments(self, member: int, number: int, told: Moments) -> None:
        """Tell of this member's replica for the ``number``th time, from 0, while its script runs."""
        self._store.set(f"moments/{member}/{number}", jsontext.encode(told).decode())

    def moments_of(self, member: int, number: int) -> Moments | None:
        """Return what the member told of its replica for that time, if it has."""
        key = f"moments/{member}/{number}"
        return self.read_message(key, Moments) if self.has(key) else None

    def ask_to_stop(self, signal: str) -> None:
        """Tell all that this process was asked to end by that signal."""
        self.announce(STOP, signal)
        self.alarm()

    def tell_fate(self, member: int, testimony: Testimony) -> None:
        """Say what this process knows of another member, which cannot say it any more."""
        text = jsontext.encode(redacted(testimony)).decode()
        self._store.compare_set(f"fate/{member}", "", text)
        self.alarm()

    def has_fate(self, member: int) -> bool:
        """Return whether somebody has said what became of the member."""
        return self.has(f"fate/{member}")

    def testify(self, member: int, testimony: Testimony) -> None:
        """Say where this member is."""
        self.announce(f"testimony/{member}", redacted(testimony))

    def has_spoken(self, member: int) -> bool:
        """Return whether the member has said where it is."""
        return self.has(f"testimony/{member}")

    def those_known(self, members: Collection[int]) -> set[int]:
        """Return those of the members that have said where they are, or whose fate somebody has."""
        return set(self._told_of(members))

    def testimonies(self, members: Collection[int]) -> dict[int, Testimony]:
        """Return what is known of each of these members of which something is: its own word first."""
        keys = self._told_of(members)
        blobs = self._in_portions(list(keys.values()))
        return {
            member: jsontext.decode(blob, Testimony)
            for member, blob in zip(keys, blobs, strict=True)
        }

    def _told_of(self, members: Collection[int]) -> dict[int, str]:
        """Return the key under which each member's testimony stands, of those that have one."""
        found: dict[int, str] = {}
        for name in ("testimony", "fate"):
            keys = {f"{name}/{each}": each for each in members if each not in found}
            found |= {keys[key]: key for key in self.those_there(list(keys))}
        return found

    def note(self, key: str, text: str) -> None:
        """Add a plain text to those under this key."""
        self.write(f"{key}/{self._store.add(key, 1) - 1}", text)

    def notes(self, key: str) -> list[str]:
        """Return the texts that were noted under this key so far."""
        keys = [f"{key}/{number}" for number in range(self._store.add(key, 0))]
        return [self.heard(each) for each in keys if self.has(each)]

    def write(self, key: str, text: str) -> None:
        """Write a plain text."""
        self._store.set(key, text)

    def heard(self, key: str) -> str:
        """Return a plain text, or '' when nobody has written it."""
        if key not in self._seen and not self.has(key):
            return ""
        self._seen.add(key)
        return self._store.get(key).decode()

    def has(self, key: str) -> bool:
        """Return whether the key is there, without waiting."""
        return self._store.check([key])

    def those_there(self, keys: Sequence[str]) -> list[str]:
        """Return those of the keys that are there, in their order, without waiting.

        The store tells of many keys only whether all are there: where they are that is one question, and
        each that is missing takes a few more.
        """
        if not keys or self._store.check(list(keys)):
            return list(keys)
        half = len(keys) // 2
        return [*self.those_there(keys[:half]), *self.those_there(keys[half:])] if half else []

    def tell(self, key: str, entries: Iterable[Entry]) -> None:
        """Write this process's entries."""
        # The store takes bytes as it takes text, which its annotations do not say.
        self._store.set(key, cast("str", packed_for_store(pack(entries))))

    def announce(self, key: str, message: object) -> None:
        """Write what every process waits for."""
        self._store.set(key, jsontext.encode(message).decode())
        if key in (ASSIGNMENT, ENDED):
            self._store.set(ROLL_IS_OVER, "")
        self._make_news()

    def hear(self, key: str, kind: type[T], timeout_s: float) -> T | None:
        """Return the announcement, or None when it does not come within ``timeout_s``."""
        try:
            self._store.wait([key], timedelta(seconds=timeout_s))
        except DistStoreError:
            return None
        return self.read_message(key, kind)

    def hear_seats(self, timeout_s: float) -> Assignment | None:
        """Return the seats, or None when the run ends, or ``timeout_s`` does, before them.

        Waits in the store: a thousand ranks that asked it again and again would keep it busy while the
        others arrive.
        """
        with suppress(DistStoreError):
            self._store.wait([ROLL_IS_OVER], timedelta(seconds=timeout_s))
        return self.read_message(ASSIGNMENT, Assignment) if self.has(ASSIGNMENT) else None

    def read_message(self, key: str, kind: type[T]) -> T:
        """Return the announcement, which must be there."""
        return jsontext.decode(self._store.get(key), kind)

    def poll(
        self, keys: Sequence[str], timeout_s: float, pause_s: float = SHORTEST_PAUSE_S
    ) -> bool:
        """Return whether all keys are there within ``timeout_s``.

        Asks again and again instead of waiting in the store, whose waits log a warning
        when they time out; a poll is for what may well not come. The first time it asks again after
        ``pause_s``.
        """
        until = time.monotonic() + timeout_s
        while not self._store.check(list(keys)):
            left_s = until - time.monotonic()
            if left_s <= 0:
                return False
            time.sleep(min(pause_s, left_s))
            pause_s = max(pause_s, min(2 * pause_s, LONGEST_PAUSE_S))
        return True

    def read(self, keys: Sequence[str]) -> list[list[Entry]]:
        """Return the entries under each of these keys, which must be there."""
        return list(unpack_sealed(map(unpacked_from_store, self._in_portions(keys))))

    def _in_portions(self, keys: Sequence[str]) -> Iterator[bytes]:
        """Yield the value of each key; not all at once, for those of thousands of ranks are large."""
        for at in range(0, len(keys), READ_AT_ONCE_COUNT):
            yield from self._values(keys[at : at + READ_AT_ONCE_COUNT])

    def _values(self, keys: Sequence[str]) -> list[bytes]:
        return self._store.multi_get(list(keys)) if keys else []

    def _make_news(self) -> None:
        self._store.add("news", 1)
