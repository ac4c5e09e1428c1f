"""Where ranks meet: the store that carries the verdict, opened or joined."""

from __future__ import annotations

from datetime import timedelta

from torch.distributed import DistError, DistNetworkError, DistStoreError

from ddpcheck.errors import LaunchError
from ddpcheck.launch.host import KEYS, host_beside
from ddpcheck.launch.identity import Identity
from ddpcheck.launch.stores import TCPStore

StoreErrors = (DistError, DistNetworkError, DistStoreError, RuntimeError)


def open_store(who: Identity, timeout_s: float) -> bool:
    """Host the store beside this process if it may and nobody does yet; return whether it does.

    The store lives in a process of its own, which outlives this one: others still have to hear
    what became of it.
    """
    return who.may_host_store and host_beside(who, timeout_s)


def join_store(who: Identity, timeout_s: float) -> TCPStore:
    """Return a client of the store; raises LaunchError when there is none in time.

    Each thread needs a client of its own: one that waits blocks its other users.
    """
    try:
        return TCPStore(
            who.master_addr,
            who.master_port,
            is_master=False,
            wait_for_workers=False,
            timeout=timedelta(seconds=timeout_s),
        )
    except StoreErrors as error:
        first_line = str(error).splitlines()[0]
        raise LaunchError(
            f"rank {who.rank} on {who.host} found no store at "
            f"{who.master_addr}:{who.master_port} within {timeout_s:.0f} s ({first_line}): "
            "check that MASTER_ADDR is the host of rank 0, that rank 0 was started, and that "
            "the port is open"
        ) from error


def key_prefix(who: Identity) -> str:
    """Return the prefix of all keys of one run.

    The launcher's store outlives a restart of its workers: keys carry the attempt.
    """
    return f"{KEYS}/{who.attempt}"
