"""The store's host: a process of its own, so that it outlives any rank that dies."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import socket
import time
import warnings
from contextlib import suppress
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NoReturn

from ddpcheck.launch.endings import REQUESTS_TO_END
from ddpcheck.launch.identity import Identity
from ddpcheck.launch.stores import TCPStore
from ddpcheck.machine.ports import STORE_NAME

# The keys of all runs; after it comes the attempt of the launcher.
KEYS = "ddpcheck"
# Marks a store that a rank of this job has opened, with the name of its host.
HOSTED = "hosted"
# Holds the attempt of the run that was begun last in the store.
BEGUN = f"{KEYS}/begun"
# Holds the end of a run, for all its ranks to hear.
ENDED = "ended"
# Count the processes that came to a run, and the beats of all of them.
ARRIVALS = "arrivals"
PULSE = "pulse"
LOOK_S = 0.1
# After the verdict, those that have not said farewell are not waited for longer.
LEAVE_S = 3.0
# Once its own rank has died, the host stays while the others still show signs of life.
SILENT_S = 5.0


def host_for_parent(listener: socket.socket, parent: Connection) -> None:
    """Host the store at ``listener`` until the parent is gone; note what it tells of its ranks.

    The parent sends pairs (pid, how it ended).
    """
    for number in REQUESTS_TO_END:
        signal.signal(number, signal.SIG_IGN)
    ask_no_name_server()
    take_all_connections()
    port: int = listener.getsockname()[1]
    store = TCPStore(
        "127.0.0.1",
        port,
        is_master=True,
        wait_for_workers=False,
        master_listen_fd=listener.detach(),
    )
    with suppress(EOFError, OSError):
        while True:
            pid, ended_by = parent.recv()
            store.set(f"{KEYS}/0/exit/{pid}", ended_by)


def ask_no_name_server() -> None:
    """Have this process look up names in /etc/hosts alone, for as long as it lives.

    torch's store looks up the name of each client's address as it connects, for its log, in the one
    thread that serves all: where no name server answers, everybody waits seconds for each rank.
    """
    with suppress(AttributeError, OSError):  # another C library than glibc
        getattr(ctypes.CDLL(None), "__nss_configure_lookup")(b"hosts", b"files")


def take_all_connections() -> None:
    """Let this process hold as many connections as the system allows: each rank has three.

    The usual soft limit of 1024 descriptors is too few for 350 ranks.
    """
    with suppress(OSError, ValueError):
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def host_beside(who: Identity, timeout_s: float) -> bool:
    """Fork a process that hosts the store at MASTER_PORT; return whether the port was free."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # This process runs nothing beside this yet: what libraries started holds no locks.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        os.close(reader)
        _be_host(who, timeout_s, writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        hosted = answer.read(1) == b"1"
    if not hosted:
        os.waitpid(child, 0)
    return hosted


def _be_host(who: Identity, timeout_s: float, answer: int) -> NoReturn:
    for number in REQUESTS_TO_END:
        signal.signal(number, signal.SIG_IGN)
    rank = os.getppid()
    with suppress(OSError):  # not where /proc is read-only; it is only for whoever looks
        Path("/proc/self/comm").write_text(STORE_NAME)
    ask_no_name_server()
    take_all_connections()
    # Whoever reads the rank's output must not wait for this process.
    null = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    try:
        # Whether MASTER_ADDR leads here is for its clients to find out.
        store = TCPStore(
            "127.0.0.1",
            who.master_port,
            is_master=True,
            wait_for_workers=False,
            timeout=timedelta(seconds=timeout_s),
        )
    except RuntimeError:  # the port is taken: by another rank, or by a stranger
        os._exit(1)
    store.set(BEGUN, who.attempt)
    store.set(f"{KEYS}/{who.attempt}/{HOSTED}", who.host)
    os.write(answer, b"1")
    os.close(answer)
    with suppress(RuntimeError):
        _stay(store, f"{KEYS}/{who.attempt}", rank, timeout_s)
    os._exit(0)


def _stay(store: TCPStore, keys: str, rank: int, deadline_s: float) -> None:
    """Return when nobody needs the store any more."""
    beats, heard_at, ended_at = -1, time.monotonic(), 0.0
    while True:
        time.sleep(LOOK_S)
        now = time.monotonic()
        if store.check([f"{keys}/{ENDED}"]):
            ended_at = ended_at or now
            members = range(store.add(f"{keys}/{ARRIVALS}", 0))
            left = store.check([f"{keys}/farewell/{member}" for member in members])
            if left or now - ended_at > LEAVE_S:
                return
        elif os.getppid() != rank:
            count = store.add(f"{keys}/{PULSE}", 0)
            if count != beats:
                beats, heard_at = count, now
            if now - heard_at > deadline_s + SILENT_S:
                return
