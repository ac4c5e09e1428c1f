"""Whether a barrier waits for the last rank."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch.distributed as dist

from ddpcheck.check import KeyValueStore

# So long the last rank stays away after all others have come: a barrier that waits for nobody is
# left in far less.
AWAY_S = 0.02
PAUSE_S = 0.001
# Who waits longer for the others to come goes in as it is: the run's own deadline will tell.
PATIENCE_S = 10.0


def come_last(store: KeyValueStore, key: str, others: int, clock: Callable[[], float]) -> None:
    """Enter a barrier some time after all the others have."""
    until = clock() + PATIENCE_S
    while store.add(f"{key}/inside", 0) < others and clock() < until:
        time.sleep(PAUSE_S)
    time.sleep(AWAY_S)
    store.set(f"{key}/came", "")
    dist.barrier()


def left_early(store: KeyValueStore, key: str) -> bool:
    """Enter a barrier; return whether this rank came out of it before the last one had come."""
    store.add(f"{key}/inside", 1)
    dist.barrier()
    return not store.check([f"{key}/came"])
