"""How the hosts of a run hear of each other: one rank of each tells a text, and reads all texts."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Protocol

from ddpcheck.network.polling import wait_until

# Ranks come out of one stage together; what is before a check in its own stage may take one of
# them longer: a name server that does not answer, say.
PATIENCE_S = 5.0


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


def gathered(store: Store, prefix: str, world_size: int) -> tuple[int, list[bytes]]:
    """Return how many hosts there are, and their texts, once all ranks came or patience ends."""
    wait_until(lambda: store.add(f"{prefix}/come", 0) >= world_size, PATIENCE_S)
    hosts_count = store.add(f"{prefix}/hosts", 0)
    keys = [_key(prefix, number) for number in range(hosts_count)]
    # A host that came late may have been counted, and not told its text yet.
    return hosts_count, store.multi_get([key for key in keys if store.check([key])])


def _key(prefix: str, number: int) -> str:
    return f"{prefix}/host/{number}"
