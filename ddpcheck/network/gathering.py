"""How the hosts of a run hear of each other: one rank of each tells a text, and reads all texts."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Protocol

from ddpcheck.network.polling import wait_until

# Ranks come out of one stage together; what is before a check in its own stage may take one of
# them longer: a name server that does not answer, say.
PATIENCE_S = 5.0
# Among more hosts, none turns to all the others.
EVERYBODY_COUNT = 16


class Store(Protocol):
    """What gathering needs of the run's store."""

    def set(self, key: str, value: str, /) -> None:
        """Write a text."""

    def add(self, key: str, amount: int, /) -> int:
        """Add to a number, 0 at first, and return the sum."""
        ...

    def check(self, keys: list[str], /) -> bool:
        """Return whether all keys are there, without waiting."""
        ...

    def multi_get(self, keys: list[str], /) -> list[bytes]:
        """Return the values of these keys, waiting for them."""
        ...


@contextmanager
def arrival(store: Store, prefix: str, place: str) -> Generator[str | None]:
    """Yield the key of a host's text to the first of its ranks to come, None to the others.

    ``place`` tells hosts apart. Every key begins with ``prefix``. Once the block has ended, and
    however it has, nobody waits for this rank.
    """
    try:
        first = store.add(f"{prefix}/on/{place}", 1) == 1
        yield _key(prefix, store.add(f"{prefix}/hosts", 1) - 1) if first else None
    finally:
        store.add(f"{prefix}/come", 1)


def hosts_known(store: Store, prefix: str, world_size: int) -> int:
    """Return how many hosts there are, once all ranks came or patience ends."""
    wait_until(lambda: store.add(f"{prefix}/come", 0) >= world_size, PATIENCE_S)
    return store.add(f"{prefix}/hosts", 0)


def texts_of(store: Store, prefix: str, hosts_count: int) -> list[bytes]:
    """Return what so many hosts told: for one rank of each to read, not for all."""
    keys = [_key(prefix, number) for number in range(hosts_count)]
    # A host that came late may have been counted, and not told its text yet.
    told = keys if store.check(keys) else [key for key in keys if store.check([key])]
    return store.multi_get(told)


def neighbours(position: int, count: int) -> list[int]:
    """Return whom the host at a place of a ring turns to: all, or some, in an order of its own.

    Among many hosts these are at distances 1, 2, 4, ... to both sides: a thousand are few steps
    apart, and no host is asked by all.
    """
    if count <= EVERYBODY_COUNT:
        return [*range(position + 1, count), *range(position)]
    steps = [1 << power for power in range((count // 2).bit_length())]
    places = [(position + side * step) % count for step in steps for side in (1, -1)]
    return [place for place in dict.fromkeys(places) if place != position]


def _key(prefix: str, number: int) -> str:
    return f"{prefix}/host/{number}"
