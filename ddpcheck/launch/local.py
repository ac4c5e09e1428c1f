"""Start local ranks: one import of torch, then a fork for each rank.

The parent never imports torch. A fork server imports it once; the store's host and all
ranks are forked from there, so that they share the import. The store lives in a process
of its own: it outlives any rank that dies.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext, ForkServerProcess
from typing import Any

from ddpcheck.errors import DdpcheckError, ExitCode

PRELOAD = "ddpcheck.launch.preload"
LOOPBACK = "127.0.0.1"
# Once one rank has left, the others follow within this time, or are ended.
FOLLOW_S = 4.0

RankMain = Callable[[Any], int]


@dataclass(frozen=True)
class Departure:
    """How a rank's process ended."""

    rank: int
    exit_code: int

    @property
    def reason(self) -> str:
        """Return what is known of the end, by signal or by exit code."""
        if self.exit_code >= 0:
            return f"exited with code {self.exit_code}"
        return f"was ended by {signal.Signals(-self.exit_code).name}"


def launch_local(rank_main: RankMain, argument: object, world_size: int) -> list[Departure]:
    """Run ``rank_main(argument)`` in ``world_size`` local ranks; return how each ended.

    The list is in the order of time. A rank that has not followed ``FOLLOW_S`` after the
    first departure is ended and not in it. Ctrl-C ends all ranks and is raised.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([PRELOAD])
    with _deaf_to_interrupts():
        forkserver.ensure_running()
    with socket.create_server((LOOPBACK, 0), backlog=world_size * 4) as listener:
        port: int = listener.getsockname()[1]
        receiver, sender = context.Pipe(duplex=False)
        host = context.Process(target=_host_store, args=(listener, receiver), daemon=True)
        host.start()
        receiver.close()
    ranks = [
        _start_rank(context, rank_main, argument, rank_environment(rank, world_size, port))
        for rank in range(world_size)
    ]
    try:
        return _watch(ranks)
    finally:
        for process in [*ranks, host]:
            process.kill()
            process.join()
        sender.close()


def rank_environment(rank: int, world_size: int, port: int) -> dict[str, str]:
    """Return the variables that torchrun would set for this rank."""
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "GROUP_RANK": "0",
        "WORLD_SIZE": str(world_size),
        "LOCAL_WORLD_SIZE": str(world_size),
        "MASTER_ADDR": LOOPBACK,
        "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "DDPCHECK_LAUNCHED": "1",
    }


@contextmanager
def _deaf_to_interrupts() -> Generator[None]:
    """Let processes that start here ignore Ctrl-C: the parent decides what it means."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _start_rank(
    context: ForkServerContext, rank_main: RankMain, argument: object, environ: Mapping[str, str]
) -> ForkServerProcess:
    process = context.Process(target=_be_rank, args=(rank_main, argument, environ))
    process.start()
    return process


def _watch(ranks: Sequence[ForkServerProcess]) -> list[Departure]:
    waiting = {process.sentinel: rank for rank, process in enumerate(ranks)}
    departures: list[Departure] = []
    until = float("inf")
    while waiting and time.monotonic() < until:
        left_s = until - time.monotonic() if departures else None
        left = wait(list(waiting), timeout=left_s)
        for rank in [rank for sentinel, rank in waiting.items() if sentinel in left]:
            del waiting[ranks[rank].sentinel]
            ranks[rank].join()
            departures.append(Departure(rank, ranks[rank].exitcode or 0))
            until = min(until, time.monotonic() + FOLLOW_S)
    return departures


def _be_rank(rank_main: RankMain, argument: object, environ: Mapping[str, str]) -> None:
    """Be one rank; runs in the forked process."""
    import torch

    # What the user's code starts, loader workers say, starts as it would without ddpcheck.
    multiprocessing.set_start_method(None, force=True)
    # The parent decides what Ctrl-C means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.update(environ)
    if "OMP_NUM_THREADS" not in os.environ:
        cores = len(os.sched_getaffinity(0))
        torch.set_num_threads(max(1, cores // int(environ["LOCAL_WORLD_SIZE"])))
    try:
        code = rank_main(argument)
    except DdpcheckError as error:
        sys.stderr.write(f"ddpcheck: {error}\n")
        code = error.exit_code
    sys.exit(code)


def _host_store(listener: socket.socket, parent: Connection) -> None:
    """Host the store until the parent is gone."""
    from ddpcheck.launch.stores import TCPStore

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    port: int = listener.getsockname()[1]
    store = TCPStore(
        LOOPBACK,
        port,
        is_master=True,
        wait_for_workers=False,
        master_listen_fd=listener.detach(),
    )
    try:
        parent.recv_bytes()
    except EOFError:
        del store
        sys.exit(ExitCode.OK)
