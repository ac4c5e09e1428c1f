"""Before there is a process group: the ranks agree, through the store, on what to train.

Every rank says what it has, rank 0 reads the report and answers for all. So the hosts
need not share a file system, and a refusal ends all ranks alike, at once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta

import msgspec
import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous

from ddpcheck.errors import DdpcheckError, ExitCode, LaunchError, UsageError
from ddpcheck.launch.identity import Identity
from ddpcheck.launch.stores import PrefixStore, Store, TCPStore
from ddpcheck.train.planning import Plan
from ddpcheck.train.together import EveryRankError

# How long a refused rank 0 keeps the store open for ranks that are slow to read it.
FAREWELL = timedelta(seconds=5)


class Hello(msgspec.Struct, frozen=True, kw_only=True):
    """What one rank brings: ``text`` is the fingerprint of its training text."""

    host: str
    gpu: bool
    text: str = ""
    error: str = ""
    exit_code: ExitCode = ExitCode.OK


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What rank 0 decides for all: a plan, or a refusal with its exit code."""

    plan: Plan | None = None
    refusal: str = ""
    exit_code: ExitCode = ExitCode.OK


Decide = Callable[[Mapping[int, Hello]], Plan]


def open_store(who: Identity, timeout: timedelta) -> Store:
    """Return the store of the launcher, or the one that rank 0 opens at MASTER_ADDR.

    Where the process has a group already, as in a worker of Ray's, it is left, for a new store.
    """
    if dist.is_initialized():
        store = _instead_of_a_group(who, timeout)
        return PrefixStore("ddpcheck/train", store)
    with _launch_errors(f"rank {who.rank} found no store at {who.master_addr}:{who.master_port}"):
        store, _, _ = next(rendezvous("env://", timeout=timeout))
    store.set_timeout(timeout)
    # A launcher's store outlives the ranks that it starts anew: what they told is in it still.
    return PrefixStore(f"ddpcheck/train/{who.attempt}", store)


def _instead_of_a_group(who: Identity, timeout: timedelta) -> Store:
    """Return a store of its own that the ranks of a group learn of there; then leave the group."""
    place, size = who.master_addr, who.world_size
    served = None
    if who.rank == 0:
        served = TCPStore(place, 0, size, is_master=True, timeout=timeout, wait_for_workers=False)
    port = [served.port if served else 0]
    dist.broadcast_object_list(port, src=0)
    store = served or TCPStore(place, port[0], size, is_master=False, timeout=timeout)
    dist.barrier()
    dist.destroy_process_group()
    return store


def agree(store: Store, who: Identity, hello: Hello, decide: Decide) -> Plan:
    """Return the plan that rank 0 decides on; raises EveryRankError if it refuses."""
    store.set(f"hello/{who.rank}", msgspec.json.encode(hello).decode())
    if who.rank == 0:
        answer = _answer(store, who.world_size, decide)
        store.set("answer", msgspec.json.encode(answer).decode())
    with _launch_errors("rank 0 gave no answer"):
        answer = msgspec.json.decode(store.get("answer"), type=Answer)
    if answer.plan is None:
        _leave(store, who)
        raise EveryRankError(answer.refusal, answer.exit_code)
    return answer.plan


def require_alike(hellos: Mapping[int, Hello]) -> None:
    """Raise UsageError, naming ranks, unless all ranks are ready and have the same text."""
    for rank, hello in hellos.items():
        if hello.error:
            raise EveryRankError(f"rank {rank} on {hello.host}: {hello.error}", hello.exit_code)
    others = [rank for rank, hello in hellos.items() if hello.text != hellos[0].text]
    if others:
        raise UsageError(
            f"ranks {', '.join(map(str, others))} have another training text than rank 0: "
            "use the same Python on all hosts, or name one file with --data"
        )


def _hellos(store: Store, world_size: int) -> dict[int, Hello]:
    hellos: dict[int, Hello] = {}
    for rank in range(world_size):
        with _launch_errors(f"rank {rank} did not come"):
            hellos[rank] = msgspec.json.decode(store.get(f"hello/{rank}"), type=Hello)
    return hellos


def _answer(store: Store, world_size: int, decide: Decide) -> Answer:
    try:
        return Answer(plan=decide(_hellos(store, world_size)))
    except DdpcheckError as error:
        return Answer(refusal=str(error), exit_code=error.exit_code)


def _leave(store: Store, who: Identity) -> None:
    # Rank 0 may be the one that hosts the store: it stays until the others have read.
    store.set(f"read/{who.rank}", "1")
    if who.rank == 0:
        with suppress(RuntimeError):
            store.wait([f"read/{rank}" for rank in range(who.world_size)], FAREWELL)


@contextmanager
def _launch_errors(what: str) -> Generator[None]:
    try:
        yield
    except RuntimeError as error:  # the root of what stores raise, DistError among it
        reason = " ".join(str(error).split())[:200]
        raise LaunchError(f"{what}: check that all ranks were started ({reason})") from error
