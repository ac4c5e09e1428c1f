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
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext, ForkServerProcess
from types import FrameType
from typing import Any

import psutil

from ddpcheck.errors import DdpcheckError
from ddpcheck.launch.endings import REQUESTS_TO_END, ending

PRELOAD = "ddpcheck.launch.preload"
LOOPBACK = "127.0.0.1"
# Once one rank has left, the others follow within this time, or are ended.
FOLLOW_S = 4.0
LOOK_S = 0.5
# timeout(1) and schedulers send SIGTERM to a process, and then to its whole group.
SAME_REQUEST_S = 1.0
BACKLOG = 1024
STORE_PORT = "DDPCHECK_STORE_PORT"

RankMain = Callable[[Any], int]


@dataclass(frozen=True)
class Departure:
    """How a rank's process ended."""

    rank: int
    exit_code: int

    @property
    def ended_by(self) -> str:
        """Return what ended the process: a signal, or an exit code."""
        return ending(self.exit_code)


@dataclass(frozen=True)
class Patience:
    """For how long ranks are waited for.

    silence_s: when all are stopped. stop_s: when they were asked to end. with_the_good: whether one
    that has left with exit code 0 hurries nobody.
    """

    silence_s: float = float("inf")
    stop_s: float = FOLLOW_S
    with_the_good: bool = False


HURRY = Patience()


def launch_local(
    rank_main: RankMain,
    argument: object,
    world_size: int,
    patience: Patience = HURRY,
) -> Ending:
    """Run ``rank_main(argument)`` in ``world_size`` local ranks; return how each ended.

    A rank that has not followed ``FOLLOW_S`` after the first departure is ended, and not among
    them. Ctrl-C has the ranks come to their end, and so does SIGTERM; a second one gives them no
    time, and is raised.
    """

    def environs(port: int) -> list[dict[str, str]]:
        return [rank_environment(rank, world_size, port) for rank in range(world_size)]

    watch = partial(_Watch, patience=patience)
    return _launch(rank_main, argument, environs, watch)


def launch_script(script_main: RankMain, argument: object, is_over: Callable[[], bool]) -> Ending:
    """Run ``script_main(argument)`` in one process, which is no rank, but may start ranks.

    It finds the port of the store in its environment, as ``STORE_PORT``. Once ``is_over`` says so,
    it is ended like a rank that has not followed the others, and so is all that it has started.
    """
    watch = partial(_Watch, patience=Patience(with_the_good=True), is_over=is_over)
    return _launch(script_main, argument, lambda port: [{STORE_PORT: str(port)}], watch)


def _launch(
    rank_main: RankMain,
    argument: object,
    environs: Callable[[int], list[dict[str, str]]],
    watch: Callable[[Sequence[ForkServerProcess], Connection], _Watch],
) -> Ending:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([PRELOAD])
    with _deaf_to_requests_to_end():
        forkserver.ensure_running()
    with socket.create_server((LOOPBACK, 0), backlog=BACKLOG) as listener:
        port: int = listener.getsockname()[1]
        receiver, sender = context.Pipe(duplex=False)
        host = context.Process(target=_host_store, args=(listener, receiver), daemon=True)
        host.start()
        receiver.close()
    ranks: list[ForkServerProcess] = []
    try:
        with _hearing_sigterm():
            for environ in environs(port):
                # One by one: those that have begun are ended when a signal comes in between.
                ranks += [_start_rank(context, rank_main, argument, environ)]
            return watch(ranks, sender).until_all_left()
    finally:
        for process in [*ranks, host]:
            _end_with_its_children(process)
            process.join()
        sender.close()


def _end_with_its_children(process: ForkServerProcess) -> None:
    """End a process if it has not ended, and what it has started: nobody waits for that then."""
    started: list[psutil.Process] = []
    if process.is_alive():
        with suppress(psutil.Error):
            started = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    for child in started:
        with suppress(psutil.Error):
            child.kill()


@dataclass(frozen=True)
class Ending:
    """How the local ranks ended, in the order of time; ``stopped_by``: the signal that made them."""

    departures: tuple[Departure, ...]
    stopped_by: str = ""

    @property
    def interrupted(self) -> bool:
        """Return whether Ctrl-C ended the ranks."""
        return self.stopped_by == "SIGINT"


class _Terminated(KeyboardInterrupt):
    """SIGTERM has come: the ranks come to their end as on Ctrl-C."""


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
def _deaf_to_requests_to_end() -> Generator[None]:
    """Let processes that start here ignore Ctrl-C and SIGTERM: the parent decides what they mean.

    Both may be sent to the whole process group.
    """
    before = {number: signal.signal(number, signal.SIG_IGN) for number in REQUESTS_TO_END}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _hearing_sigterm() -> Generator[None]:
    heard_at = float("-inf")

    def terminate(_number: int, _frame: FrameType | None) -> None:
        nonlocal heard_at
        if time.monotonic() - heard_at > SAME_REQUEST_S:
            heard_at = time.monotonic()
            raise _Terminated

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _start_rank(
    context: ForkServerContext, rank_main: RankMain, argument: object, environ: Mapping[str, str]
) -> ForkServerProcess:
    process = context.Process(target=_be_rank, args=(rank_main, argument, environ))
    process.start()
    return process


class _Watch:
    """Waits for the ranks to leave, and passes on how they did."""

    def __init__(
        self,
        ranks: Sequence[ForkServerProcess],
        host: Connection,
        patience: Patience,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        self._patience = patience
        self._is_over = is_over
        self._ranks = ranks
        self._host = host
        self._waiting = {process.sentinel: rank for rank, process in enumerate(ranks)}
        self._departures: list[Departure] = []
        self._until = float("inf")
        self._moving_at = time.monotonic()

    def until_all_left(self) -> Ending:
        """Return how the ranks ended, once all have or the time for it is over."""
        stopped_by = ""
        while self._waiting and time.monotonic() < self._until:
            try:
                self._wait()
            except KeyboardInterrupt as stop:
                if stopped_by:
                    raise
                number = signal.SIGTERM if isinstance(stop, _Terminated) else signal.SIGINT
                stopped_by = number.name
                self._pass_on(number)
        return Ending(tuple(self._departures), stopped_by)

    def _pass_on(self, number: signal.Signals) -> None:
        self._until = min(self._until, time.monotonic() + self._patience.stop_s)
        for process in self._ranks:
            if process.pid is not None and process.is_alive():
                os.kill(process.pid, number)

    def _wait(self) -> None:
        left_s = max(0.0, min(LOOK_S, self._until - time.monotonic()))
        left = wait(list(self._waiting), timeout=left_s)
        for rank in [rank for sentinel, rank in self._waiting.items() if sentinel in left]:
            process = self._ranks[rank]
            del self._waiting[process.sentinel]
            process.join()
            departure = Departure(rank, process.exitcode or 0)
            self._departures.append(departure)
            with suppress(OSError):  # the store's host may have gone first
                self._host.send((process.pid, departure.ended_by))
            if departure.exit_code or not self._patience.with_the_good:
                self._until = min(self._until, time.monotonic() + FOLLOW_S)
        if self._until == float("inf") and self._is_over():
            self._until = time.monotonic() + FOLLOW_S
        self._see_whether_all_are_stopped()

    def _see_whether_all_are_stopped(self) -> None:
        # Ranks that are stopped cannot tell; those that run have sentinels that do.
        now = time.monotonic()
        if not all(_is_stopped(self._ranks[rank]) for rank in self._waiting.values()):
            self._moving_at = now
        if now - self._moving_at > self._patience.silence_s:
            self._until = now


def _is_stopped(process: ForkServerProcess) -> bool:
    try:
        return psutil.Process(process.pid).status() == psutil.STATUS_STOPPED
    except psutil.NoSuchProcess:
        return False


def _be_rank(rank_main: RankMain, argument: object, environ: Mapping[str, str]) -> None:
    """Be one rank; runs in the forked process."""
    import torch

    # What the user's code starts, loader workers say, starts as it would without ddpcheck.
    multiprocessing.set_start_method(None, force=True)
    # The parent decides what Ctrl-C means, until the rank's own code does.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.update(environ)
    if "OMP_NUM_THREADS" not in os.environ and "LOCAL_WORLD_SIZE" in environ:
        cores = len(os.sched_getaffinity(0))
        torch.set_num_threads(max(1, cores // int(environ["LOCAL_WORLD_SIZE"])))
    try:
        code = rank_main(argument)
    except DdpcheckError as error:
        sys.stderr.write(f"ddpcheck: {error}\n")
        code = error.exit_code
    sys.exit(code)


def _host_store(listener: socket.socket, parent: Connection) -> None:
    from ddpcheck.launch.host import host_for_parent

    host_for_parent(listener, parent)
