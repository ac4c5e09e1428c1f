"""The control channel: what ranks tell the leader, and what the leader announces."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import TypeVar

import msgspec
from torch.distributed import DistStoreError

from ddpcheck import jsontext
from ddpcheck.engine.entries import Entry, Stuck, pack, unpack
from ddpcheck.launch.stores import Store

T = TypeVar("T")

ENDED = "ended"
# Set by a rank whose work raised inside the process group: others may wait for it in vain.
RAISED = "raised"
SHORTEST_PAUSE_S = 0.002
LONGEST_PAUSE_S = 0.02


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """The leader's answer to the roll call; seats are in the order of the members.

    A member is a process in the order of arrival. Its seat is its rank, or, when the ranks
    that processes claim clash, its place in their order. Unless the ranks are just 0 to
    WORLD_SIZE - 1 the run is not ``complete``, and only its launch stage takes place.
    """

    run_id: str
    run_dir: str
    backend: str
    seats: Sequence[int]
    deadline_s: float
    complete: bool


class Decision(msgspec.Struct, frozen=True):
    """Whether the run goes on after a stage."""

    go: bool


class End(msgspec.Struct, frozen=True):
    """The run is over, with this exit code."""

    exit_code: int


class Channel:
    """One thread's client of the store, within the keys of one run."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def arrive(self, present: Entry) -> int:
        """Tell who this process is and return its number in the order of arrival, from 0."""
        member = self._store.add("arrivals", 1) - 1
        self._store.set(f"member/{member}", pack([present]).decode())
        return member

    def arrivals(self) -> int:
        """Return how many processes have come so far."""
        return self._store.add("arrivals", 0)

    def claim_lead(self, member: int) -> bool:
        """Return whether this member leads: the first to claim does."""
        leader = self._store.compare_set("leader", "", str(member))
        return leader == str(member).encode()

    def has(self, key: str) -> bool:
        """Return whether the key is there, without waiting."""
        return self._store.check([key])

    def tell(self, key: str, entries: Iterable[Entry]) -> None:
        """Write this process's entries."""
        self._store.set(key, pack(entries).decode())

    def announce(self, key: str, message: msgspec.Struct) -> None:
        """Write what every process waits for."""
        self._store.set(key, jsontext.encode(message).decode())

    def hear(self, key: str, kind: type[T], timeout_s: float) -> T | None:
        """Return the announcement, or None when it does not come within ``timeout_s``."""
        try:
            self._store.wait([key], timedelta(seconds=timeout_s))
        except DistStoreError:
            return None
        return self.read_message(key, kind)

    def hear_or_end(self, key: str, kind: type[T], timeout_s: float) -> T | None:
        """Return the announcement, or None when the run ends, or ``timeout_s`` does, before it."""
        until = time.monotonic() + timeout_s
        while not self.poll([key], LONGEST_PAUSE_S):
            if self.has(ENDED) or time.monotonic() > until:
                return None
        return self.read_message(key, kind)

    def read_message(self, key: str, kind: type[T]) -> T:
        """Return the announcement, which must be there."""
        return jsontext.decode(self._store.get(key), kind)

    def poll(self, keys: Sequence[str], timeout_s: float) -> bool:
        """Return whether all keys are there within ``timeout_s``.

        Asks again and again instead of waiting in the store, whose waits log a warning
        when they time out; a poll is for what may well not come.
        """
        until = time.monotonic() + timeout_s
        pause_s = SHORTEST_PAUSE_S
        while not self._store.check(list(keys)):
            left_s = until - time.monotonic()
            if left_s <= 0:
                return False
            time.sleep(min(pause_s, left_s))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        return True

    def read(self, keys: Sequence[str]) -> list[list[Entry]]:
        """Return the entries under each of these keys, which must be there."""
        return [list(unpack(blob)) for blob in self._store.multi_get(list(keys))] if keys else []

    def stuck(self, seats: Iterable[int]) -> dict[int, Stuck]:
        """Return what the sentinels of these seats said of checks that overran."""
        keys = {seat: f"stuck/{seat}" for seat in seats if self.has(f"stuck/{seat}")}
        told = self.read(list(keys.values()))
        return {
            seat: entry
            for seat, entries in zip(keys, told, strict=True)
            for entry in entries
            if isinstance(entry, Stuck)
        }
