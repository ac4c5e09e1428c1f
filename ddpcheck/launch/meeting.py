"""Where ranks meet: the store that carries the verdict, opened or joined."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

from torch.distributed import DistError, DistNetworkError, DistStoreError

from ddpcheck.errors import LaunchError
from ddpcheck.launch.identity import Identity
from ddpcheck.launch.stores import TCPStore

StoreErrors = (DistError, DistNetworkError, DistStoreError, RuntimeError)


def open_store(who: Identity, timeout_s: float) -> TCPStore | None:
    """Host the store in this process if it may and nobody does yet, else return None."""
    if not who.may_host_store:
        return None
    with suppress(*StoreErrors):  # the port is taken: by another rank, or by a stranger
        return TCPStore(
            who.master_addr,
            who.master_port,
            is_master=True,
            wait_for_workers=False,
            timeout=timedelta(seconds=timeout_s),
        )
    return None


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
    return f"ddpcheck/{who.attempt}"
