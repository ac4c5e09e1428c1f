"""The hosts of a run: one rank of each listens, all learn of each other, and who visits whom."""

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from ddpcheck.machine.files import text_of
from ddpcheck.machine.interfaces import loopback_domain
from ddpcheck.network.echo import Listener, listen
from ddpcheck.network.gathering import (
    PATIENCE_S,
    Store,
    arrival,
    hosts_known,
    neighbours,
    texts_of,
)
from ddpcheck.network.reach import resolved

Answer = TypeVar("Answer")

# A listener outlives the visits of the others, who may have waited before them, and try twice.
LIFETIME_S = 4 * PATIENCE_S
RESOLVE_S = 2.0
DISCARD_PORT = 9  # RFC 863; nothing is sent there


class Here(msgspec.Struct, frozen=True):
    """Where a rank is; ``place`` is its host's alone, where names may be the same.

    ``address`` is the host's own for the others, '' when there is none that they could reach;
    ``others`` are further ones that it uses, and ``spare`` is one that it could use instead.
    """

    host: str
    place: str
    address: str
    others: tuple[str, ...] = ()
    spare: str = ""


class Seat(msgspec.Struct, frozen=True):
    """One host: its name, ``place``, which no other host has, and the listeners on it."""

    host: str
    place: str
    listener: Listener
    others: tuple[Listener, ...] = ()
    spare: Listener | None = None


class Roster(msgspec.Struct, frozen=True):
    """What one rank knows of the hosts; ``peers`` are those that it visits."""

    hosts_count: int
    own: Seat | None
    peers: tuple[Seat, ...]


def place_of(host: str, root: Path = Path("/")) -> str:
    """Return a text that the processes of one network and host name have in common.

    A kernel's boot id does not tell machines apart that go back to one snapshot.
    """
    return f"{loopback_domain(host, root)} {host}"


def call_together(store: Store, prefix: str, world_size: int, here: Here) -> Roster:
    """Return the roster, once all ranks have come or patience is at its end.

    The first rank of a host to come listens, where it has an address, and visits; the others of
    the host have nothing to do. Every key begins with ``prefix``.
    """
    own = None
    with arrival(store, prefix, here.place) as key:
        if key and here.address:
            own = _seat(here)
            store.set(key, msgspec.json.encode(own).decode())
    hosts_count = hosts_known(store, prefix, world_size)
    if own is None:
        return Roster(hosts_count, None, ())
    seats = [_read(told) for told in texts_of(store, prefix, hosts_count)]
    return Roster(hosts_count, own, peers_of(own, seats))


def _seat(here: Here) -> Seat:
    import secrets

    token = secrets.token_hex(8)
    others = [found for each in here.others for found in _further(each, token)]
    spare = next(_further(here.spare, token), None)
    own = listen(here.address, token, LIFETIME_S)
    return Seat(here.host, here.place, own, tuple(others), spare)


def _further(address: str, token: str) -> Iterator[Listener]:
    with suppress(OSError):  # it was taken away, or is not the host's yet
        if address:
            yield listen(address, token, LIFETIME_S)


def _read(told: bytes) -> Seat:
    return msgspec.json.decode(told, type=Seat)


def peers_of(own: Seat, seats: Sequence[Seat]) -> tuple[Seat, ...]:
    """Return whom a host visits: everybody, or among many those at some distances in the ring."""
    ring = sorted(seats, key=lambda seat: (seat.host, seat.place))
    return tuple(ring[place] for place in neighbours(ring.index(own), len(ring)))


def visit_all(
    visit: Callable[[Listener], Answer], seats: Sequence[Seat]
) -> list[tuple[Seat, Listener, Answer]]:
    """Return what visiting each listener of these gives, but the spare ones, all at once."""
    from concurrent.futures import ThreadPoolExecutor

    doors = [(seat, door) for seat in seats for door in (seat.listener, *seat.others)]
    with ThreadPoolExecutor(max(1, len(doors))) as pool:
        told = pool.map(visit, [door for _, door in doors])
        return [(*door, answer) for door, answer in zip(doors, told, strict=True)]


def address_towards(host: str) -> str:
    """Return this host's own address on the way to a host, '' when there is no way.

    No packet is sent: the kernel chooses the address with the route.
    """
    places = resolved(host, DISCARD_PORT, RESOLVE_S)
    for family, place in [] if isinstance(places, str) else places:
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as asking:
            asking.connect(place)
            return str(asking.getsockname()[0]).partition("%")[0]
    return ""


def ephemeral_ports(root: Path = Path("/")) -> str:
    """Return the ports that the kernel hands out, as "32768-60999"."""
    told = text_of(root / "proc/sys/net/ipv4/ip_local_port_range")
    return "-".join(told.split()) or "1024-65535"
