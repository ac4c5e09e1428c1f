"""What the ranks of a group agree on beside the collectives that are under test."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from ddpcheck.check import Context, KeyValueStore, Skip


class Agreement:
    """Values that one rank decides on and the others take over, in one order on all of them.

    They go through the store of the run: a collective that is wrong must not make ranks part.
    """

    def __init__(self, store: KeyValueStore, prefix: str, timeout: timedelta) -> None:
        self._store = store
        self._prefix = prefix
        self._timeout = timeout
        self._turn = 0

    def taken_over(self, decide: Callable[[], str], *, decides: bool) -> str:
        """Return what the one rank decides that does; the others wait for it."""
        self._turn += 1
        key = f"{self._prefix}/{self._turn}"
        if not decides:
            self._store.wait([key], self._timeout)
            return self._store.get(key).decode()
        value = decide()
        self._store.set(key, value)
        return value

    def told(self, value: str, rank: int, world_size: int) -> Callable[[], list[bytes]]:
        """Tell all others a value; return what gives those of all ranks, once they have told."""
        self._turn += 1
        keys = [f"{self._prefix}/{self._turn}/{each}" for each in range(world_size)]
        self._store.set(keys[rank], value)

        def everyone() -> list[bytes]:
            self._store.wait(keys, self._timeout)
            return self._store.multi_get(keys)

        return everyone

    def part(self, name: str) -> Agreement:
        """Return an agreement among some of the ranks, who call it by the same name."""
        return Agreement(self._store, f"{self._prefix}/{name}", self._timeout)


def agreement(ctx: Context, check_id: str) -> Agreement:
    """Return an agreement of all ranks in one check; raises Skip where there is no store."""
    if ctx.store is None:
        raise Skip("ranks agree through the store of a run")
    return Agreement(ctx.store, f"{check_id}/agreed", ctx.timeout)
