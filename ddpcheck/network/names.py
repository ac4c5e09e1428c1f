"""Where names of hosts lead to, within a bound: a name server that is gone costs seconds each."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from threading import Thread
from time import monotonic

import msgspec

from ddpcheck.network.gathering import Store, arrival, hosts_known, neighbours, texts_of

# Two tries of the resolver, at 5 s each, are its own patience (resolv.conf(5), timeout).
OWN_NAME_S = 6.0
FALLBACK = "127.0.0.1"


class OwnName(msgspec.Struct, frozen=True):
    """Where a host's own name leads to on that host.

    ``usable`` is the first address that a socket can be bound to, and gloo's choice: the loopback
    when there is none, and '' when the answer took too long to know.
    """

    found: tuple[str, ...]
    usable: str

    @property
    def is_loopback(self) -> bool:
        """Return whether gloo would tell the others an address that leads to themselves."""
        return bool(self.usable) and ipaddress.ip_address(self.usable).is_loopback


@cache
def own_name(host: str) -> OwnName:
    """Return where this host's own name leads to; asks once."""
    told = resolved_all([host], OWN_NAME_S)
    found = told.get(host)
    if found is None:
        return OwnName((), "")
    return OwnName(found, next(filter(_can_be_bound, found), FALLBACK))


def resolved_all(names: Iterable[str], budget_s: float) -> dict[str, tuple[str, ...]]:
    """Return the addresses of all names that there was an answer for in time, asked at once.

    None at all is an answer, too. Nothing ends the resolver: a thread is left to it.
    """
    answers: dict[str, tuple[str, ...]] = {}
    asking = [
        Thread(target=_answer, args=(answers, name), daemon=True) for name in dict.fromkeys(names)
    ]
    for each in asking:
        each.start()
    end = monotonic() + budget_s
    for each in asking:
        each.join(max(0.0, end - monotonic()))
    return dict(answers)


def names_of_others(
    store: Store, prefix: str, world_size: int, host: str, domain: str
) -> list[str] | None:
    """Return the names of other hosts to the first rank of each host to come; None to the others.

    Among many hosts these are some: if all asked for all at once, thousands of lookups would come
    to one name server. ``domain`` tells hosts apart. Every key begins with ``prefix``.
    """
    with arrival(store, prefix, domain) as key:
        if key:
            store.set(key, host)
    if not key:
        return None
    told = texts_of(store, prefix, hosts_known(store, prefix, world_size))
    ring = sorted({host, *(name.decode() for name in told)})
    return [ring[place] for place in neighbours(ring.index(host), len(ring))]


def is_address(text: str) -> bool:
    """Return whether a host is given as an address, which needs no resolver."""
    try:
        ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return True


def loopbacks(addresses: Iterable[str]) -> list[str]:
    """Return those of the addresses that lead to whoever uses them."""
    return [each for each in addresses if ipaddress.ip_address(each).is_loopback]


def _answer(answers: dict[str, tuple[str, ...]], name: str) -> None:
    answers[name] = _addresses(name)


def _addresses(name: str) -> tuple[str, ...]:
    with suppress(OSError, ValueError):  # no such name; UnicodeError: it can be no name
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        return tuple(dict.fromkeys(str(place[0]).partition("%")[0] for *_, place in found))
    return ()


def _can_be_bound(address: str) -> bool:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with suppress(OSError), socket.socket(family, socket.SOCK_STREAM) as trying:
        trying.bind((address, 0))
        return True
    return False
