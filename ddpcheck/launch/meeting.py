"""Where ranks meet: the store that carries the verdict, opened or joined, within a bound."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import psutil

from ddpcheck.errors import MeetingError
from ddpcheck.launch.host import ARRIVALS, BEGUN, ENDED, HOSTED, KEYS, PULSE, host_beside
from ddpcheck.launch.identity import Identity
from ddpcheck.launch.stores import PrefixStore, Store, TCPStore
from ddpcheck.machine.ports import STORE_NAME, owner_of, owner_pid, why_not_opened
from ddpcheck.network.reach import Reach, Reached, reach

# Between two tries, at first and at last: a thousand ranks that all try ten times a second would
# keep rank 0's host and the name server busy while the store comes up.
RETRY_S, LONGEST_RETRY_S = 0.1, 1.0
# A store that answers at all does so at once; a stranger may never.
HANDSHAKE_S = 5.0
# One try to connect; a host that is up answers in far less.
TRY_S = 2.0
# A name may become known a moment after its host has started, as in Kubernetes.
NAME_S = 10.0
# Who has begun a run arrives in it, and beats there, within this time.
BEGINNING_S = 5.0
GOLDEN_RATIO = 0.6180339887
# Between opening a port and listening at it pass microseconds: what is silent for so long is held.
HELD_S = 5.0
NO_STORE = (
    "it accepts connections, and does not answer as a store: a proxy or sidecar (Istio: "
    "annotate the pods with sidecar.istio.io/inject: 'false'), or another program"
)
MUTE_STORE = (
    "the store there accepts connections, and does not answer in time: its process is at a stop, "
    "or this machine has too few cores for what runs on it"
)
# What torch says of a connection that did not come about in time.
LATE = "timed out"
# How an attempt ends when what has the port is not the store of this job.
OF_STRANGERS = (Reached.SILENT, Reached.CLOSED, Reached.OTHER)


def open_store(who: Identity, timeout_s: float) -> bool:
    """Host the store beside this process if it may and nobody does yet; return whether it does.

    The store lives in a process of its own, which outlives this one: others still have to hear
    what became of it.
    """
    if not who.may_host_store:
        return False
    if host_beside(who, timeout_s):
        return True
    if who.launcher == "ray" and owner_pid(who.master_port) in _ancestors():
        # What started this rank has a process group of its own, and with it a store: Ray's worker.
        join_store(who, min(HANDSHAKE_S, timeout_s)).set(_mark(who), who.host)
    return False


def meet(who: Identity, timeout_s: float, *, hosts: bool) -> TCPStore:
    """Return a first client of the store; raises MeetingError, which says what is in the way.

    ``hosts`` is whether this process has opened the store.

    Everything here has a bound of its own: torch's client waits for ever for the answer of a
    listener that is no store.
    """
    until = time.monotonic() + timeout_s
    while True:
        hosts = _reach(who, until, timeout_s, hosts=hosts)
        store = _client_unless_gone(who, until)
        if store and (hosts or who.store_is_hosted or _goes_on(store, who, until)):
            return store
        if time.monotonic() >= until:
            told = f"the store there is that of a run that has ended, for {timeout_s:.0f} s"
            raise _cannot_meet(who, told, Reached.OTHER)
        time.sleep(RETRY_S)


def _client_unless_gone(who: Identity, until: float) -> TCPStore | None:
    """Return a client of the store, or None where it has gone since something listened there."""
    try:
        return first_client(who, until)
    except MeetingError as error:
        is_closed = error.kind is Reached.CLOSED
        if is_closed and not reach(who.master_addr, who.master_port, TRY_S / 2).is_open:
            return None
        raise


def _goes_on(store: TCPStore, who: Identity, until: float) -> bool:
    """Return whether the store is that of a run to take part in; raises MeetingError for a stranger's.

    The store of a run that has ended stays until all have left it: a second run on the same port may
    begin by then, and has to wait for that, and to open its own.
    """
    try:
        if not _wait_for_mark(store, who, until):
            told = "the store there is another job's: no rank of this job opened it"
            raise _cannot_meet(who, told, Reached.OTHER)
        return not _is_over(PrefixStore(key_prefix(who), store), who.world_size)
    except RuntimeError:  # it has gone meanwhile
        return False


def in_own_run(store: Store, who: Identity) -> Identity:
    """Return who this process is in the first run of this store that is not over yet.

    A launcher's store outlives a run: a second command of the same ranks finds the first one's
    keys there. One that comes late to a run that lacks it belongs to that run.

    torchrun's agents count restarts each by itself, so that the ranks of one start may not agree on
    the attempt: they all take part in the run that the first of them has begun.
    """
    run = who
    outlives = who.store_is_hosted or who.launcher == "ray"
    while outlives and _is_over(PrefixStore(key_prefix(run), store), who.world_size):
        attempt, _, number = run.attempt.partition(".")
        run = replace(run, attempt=f"{attempt}.{int(number or 0) + 1}")
    begun = store.compare_set(BEGUN, "", run.attempt).decode()
    while begun != run.attempt:
        other = replace(run, attempt=begun)
        if _is_gathering(store, other):
            return other
        begun = store.compare_set(BEGUN, begun, run.attempt).decode()
    return run


def _is_gathering(store: Store, who: Identity) -> bool:
    """Return whether processes that live wait for others in the run of this attempt."""
    run = PrefixStore(key_prefix(who), store)
    until = time.monotonic() + BEGINNING_S
    pulse = run.add(PULSE, 0)
    while not run.check([ENDED]) and run.add(ARRIVALS, 0) < who.world_size:
        if run.add(PULSE, 0) != pulse:
            return True
        if time.monotonic() > until:
            return False
        time.sleep(RETRY_S)
    return False


def _is_over(run: Store, world_size: int) -> bool:
    return run.check([ENDED]) and run.add(ARRIVALS, 0) >= world_size


def store_host(store: Store, who: Identity) -> str:
    """Return the host whose rank opened the store, or '' when a launcher did."""
    if who.store_is_hosted:
        return ""
    if not store.check([_mark(who)]):  # its agent counts other restarts
        who = replace(who, attempt=store.get(BEGUN).decode())
    return store.get(_mark(who)).decode()


def join_store(who: Identity, timeout_s: float) -> TCPStore:
    """Return a client of the store; raises MeetingError when there is none in time.

    Each thread needs a client of its own: one that waits blocks its other users.
    """
    made: list[TCPStore | RuntimeError] = []
    # Nothing ends a client that waits for a stranger's answer: it waits in a thread of its own.
    thread = threading.Thread(target=_make_client, args=(who, timeout_s, made), daemon=True)
    thread.start()
    thread.join(timeout_s + RETRY_S)
    if made and not isinstance(made[0], RuntimeError):
        return made[0]
    raise _no_client(who, str(made[0]).splitlines()[0] if made else "")


def _no_client(who: Identity, told: str) -> MeetingError:
    """Return why there is no client: what torch told, or nothing, as it still waits for an answer."""
    if told and LATE not in told:
        return _cannot_meet(who, told, Reached.CLOSED)
    # It knows no more than that time was over.
    tried = reach(who.master_addr, who.master_port, TRY_S / 2)
    if not tried.is_open:
        return _cannot_meet(who, tried.detail, tried.kind)
    if told:
        return _cannot_meet(who, told, Reached.FILTERED)
    return _cannot_meet(who, MUTE_STORE if _is_stores(who) else NO_STORE, Reached.SILENT)


def first_client(who: Identity, until: float) -> TCPStore:
    """Return a client of the store that listens there; raises MeetingError where none does in time.

    Only a stranger stays silent. A connection that does not come about, or a store of ours that is
    slow, means a busy machine: there is time until the deadline.
    """
    while True:
        left_s = max(RETRY_S, until - time.monotonic())
        try:
            return join_store(who, left_s if who.store_is_hosted else min(HANDSHAKE_S, left_s))
        except MeetingError as error:
            is_late = error.kind not in OF_STRANGERS or MUTE_STORE in str(error)
            if not is_late or time.monotonic() >= until:
                raise


def _is_stores(who: Identity) -> bool:
    """Return whether a run's store on this machine has the port, which is only slow then."""
    return who.is_on_master and STORE_NAME in owner_of(who.master_port)


def key_prefix(who: Identity) -> str:
    """Return the prefix of all keys of one run.

    The launcher's store outlives a restart of its workers: keys carry the attempt.
    """
    return f"{KEYS}/{who.attempt}"


def pauses_s(rank: int) -> Iterator[float]:
    """Yield the pauses between the tries of a rank, each twice as long as the one before.

    They differ from rank to rank, so that ranks which started together do not try together.
    """
    # Multiples of the golden ratio lie as far from each other as so many numbers can.
    spread = 0.5 + rank * GOLDEN_RATIO % 1 / 2
    pause_s = RETRY_S
    while True:
        yield spread * pause_s
        pause_s = min(2 * pause_s, LONGEST_RETRY_S)


def _ancestors() -> set[int | None]:
    with suppress(psutil.Error):
        return {parent.pid for parent in psutil.Process().parents()}
    return set()


def _reach(who: Identity, until: float, timeout_s: float, *, hosts: bool) -> bool:
    """Return, once something listens there, whether this process hosts it.

    Whoever could not open the port, and may, tries again when nobody listens there any more. Raises
    MeetingError when nothing does in time.
    """
    could_open = not hosts and not who.store_is_hosted and who.is_on_master
    began = time.monotonic()
    last: Reach | None = None
    pauses = pauses_s(who.rank)
    while True:
        # The last try has time enough, too, to tell a firewall's answer from none.
        left_s = max(TRY_S / 2, until - time.monotonic())
        tried = reach(who.master_addr, who.master_port, min(left_s, TRY_S))
        if tried.is_open:
            return hosts
        now = time.monotonic()
        unknown = tried.kind is Reached.UNRESOLVED and now - began > NAME_S
        # A firewall that says no says it only so often a second, and between is silent.
        last = last if tried.kind is Reached.FILTERED and last else tried
        refused = could_open and tried.kind is Reached.REFUSED
        if refused and who.may_host_store and host_beside(who, timeout_s):
            return True
        if (
            refused
            and now > min(until, began + HELD_S)
            and (why := why_not_opened(who.master_port))
        ):
            told = f"the port is taken: nothing listens there, and it cannot be opened ({why})"
            raise _cannot_meet(who, told, Reached.OTHER)
        if now >= until or unknown:
            told = f"{last.detail}, for {now - began:.0f} of {timeout_s:.0f} s"
            raise _cannot_meet(who, told, last.kind)
        time.sleep(max(0.0, min(next(pauses), until - time.monotonic())))


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


def _mark(who: Identity) -> str:
    return f"{key_prefix(who)}/{HOSTED}"


def _wait_for_mark(store: TCPStore, who: Identity, until: float) -> bool:
    pauses = pauses_s(who.rank)
    while not store.check([_mark(who)]) and not _is_begun_by_others(store, who):
        if time.monotonic() > until:
            return False
        time.sleep(max(0.0, min(next(pauses), until - time.monotonic())))
    return True


def _is_begun_by_others(store: TCPStore, who: Identity) -> bool:
    """Return whether ranks of this start, whose agent counts other restarts, opened the store."""
    if not store.check([BEGUN]):
        return False
    begun = replace(who, attempt=store.get(BEGUN).decode())
    return begun != who and store.check([_mark(begun)]) and _is_gathering(store, begun)


def _cannot_meet(who: Identity, reason: str, kind: Reached) -> MeetingError:
    strange = kind in OF_STRANGERS and not who.store_is_hosted and who.is_on_master
    owner = owner_of(who.master_port) if strange else ""
    held = f"; the port is held by {owner}" if owner else ""
    return MeetingError(
        f"rank {who.rank} on {who.host} cannot meet the others at "
        f"{who.master_addr}:{who.master_port}: {reason}{held}",
        kind,
        owner,
    )
