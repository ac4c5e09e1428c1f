"""Where ranks meet: the store that carries the verdict, opened or joined, within a bound."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from datetime import timedelta

import psutil

from ddpcheck.errors import LaunchError
from ddpcheck.launch.host import HOSTED, KEYS, host_beside
from ddpcheck.launch.identity import Identity
from ddpcheck.launch.stores import TCPStore

RETRY_S = 0.1
# A store that answers at all does so at once; a stranger may never.
HANDSHAKE_S = 5.0


def open_store(who: Identity, timeout_s: float) -> bool:
    """Host the store beside this process if it may and nobody does yet; return whether it does.

    The store lives in a process of its own, which outlives this one: others still have to hear
    what became of it.
    """
    return who.may_host_store and host_beside(who, timeout_s)


def meet(who: Identity, timeout_s: float) -> TCPStore:
    """Return a first client of the store; raises LaunchError, which says what is in the way.

    Everything here has a bound of its own: torch's client waits for ever for the answer of a
    listener that is no store.
    """
    until = time.monotonic() + timeout_s
    _reach(who, until, timeout_s)
    store = join_store(who, min(HANDSHAKE_S, timeout_s))
    if not who.store_is_hosted and not _has_mark(store, who, until):
        raise _cannot_meet(who, "the store there is another job's: no rank of this job opened it")
    return store


def join_store(who: Identity, timeout_s: float) -> TCPStore:
    """Return a client of the store; raises LaunchError when there is none in time.

    Each thread needs a client of its own: one that waits blocks its other users.
    """
    made: list[TCPStore | RuntimeError] = []
    # Nothing ends a client that waits for a stranger's answer: it waits in a thread of its own.
    thread = threading.Thread(target=_make_client, args=(who, timeout_s, made), daemon=True)
    thread.start()
    thread.join(timeout_s + RETRY_S)
    if not made:
        raise _cannot_meet(who, "it accepts connections, and does not answer as a store")
    if isinstance(made[0], RuntimeError):
        raise _cannot_meet(who, str(made[0]).splitlines()[0])
    return made[0]


def key_prefix(who: Identity) -> str:
    """Return the prefix of all keys of one run.

    The launcher's store outlives a restart of its workers: keys carry the attempt.
    """
    return f"{KEYS}/{who.attempt}"


def owner_of(port: int) -> str:
    """Return who listens on a TCP port of this machine, in words, or ''."""
    with suppress(psutil.Error, OSError):
        for connection in psutil.net_connections("tcp"):
            listens = connection.status == psutil.CONN_LISTEN
            if listens and getattr(connection.laddr, "port", 0) == port:
                return _described(connection.pid)
    return ""


def _described(pid: int | None) -> str:
    if pid is None:
        return "a process of another user"
    process = psutil.Process(pid)
    command = " ".join(process.cmdline())[:120] or process.name()
    return f"pid {pid} of user {process.username()} ({command})"


def _reach(who: Identity, until: float, timeout_s: float) -> None:
    """Return once something listens there; raises LaunchError when nothing does in time."""
    while True:
        left_s = max(RETRY_S, until - time.monotonic())
        try:
            with socket.create_connection((who.master_addr, who.master_port), timeout=left_s):
                return
        except socket.gaierror as error:
            raise _cannot_meet(who, f"the name does not resolve ({error.strerror})") from error
        except (OSError, UnicodeError) as error:
            if time.monotonic() >= until:
                reason = getattr(error, "strerror", None) or str(error)
                raise _cannot_meet(who, f"{reason}, for {timeout_s:.0f} s") from error
        time.sleep(RETRY_S)


def _make_client(who: Identity, timeout_s: float, made: list[TCPStore | RuntimeError]) -> None:
    try:
        client = TCPStore(
            who.master_addr,
            who.master_port,
            is_master=False,
            wait_for_workers=False,
            timeout=timedelta(seconds=timeout_s),
        )
    except RuntimeError as error:
        made.append(error)
    else:
        made.append(client)


def _has_mark(store: TCPStore, who: Identity, until: float) -> bool:
    while not store.check([f"{key_prefix(who)}/{HOSTED}"]):
        if time.monotonic() > until:
            return False
        time.sleep(RETRY_S)
    return True


def _cannot_meet(who: Identity, reason: str) -> LaunchError:
    owner = owner_of(who.master_port) if who.is_on_master else ""
    held = f"; the port is held by {owner}" if owner else ""
    return LaunchError(
        f"rank {who.rank} on {who.host} cannot meet the others at "
        f"{who.master_addr}:{who.master_port}: {reason}{held}"
    )
