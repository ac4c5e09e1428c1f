"""Whether a TCP connection comes about, and if not, how it fails, in words for the user."""

import errno
import os
import selectors
import socket
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, closing, contextmanager
from enum import StrEnum
from threading import Thread
from typing import Any

import msgspec

# An address as the socket module has it: what is in it depends on the family.
Place = tuple[socket.AddressFamily, tuple[Any, ...]]
PORTS = range(1, 1 << 16)


class Reached(StrEnum):
    """How an attempt to connect ended."""

    OPEN = "open"
    REFUSED = "refused"
    FILTERED = "filtered"
    NO_ROUTE = "no-route"
    UNRESOLVED = "unresolved"
    CLOSED = "closed"
    SILENT = "silent"
    OTHER = "other"


class Reach(msgspec.Struct, frozen=True):
    """The end of one attempt: ``detail`` says it in one clause, ``took_s`` is in seconds.

    ``address`` is the host and port as asked for, and what the host resolved to.
    """

    kind: Reached
    address: str
    detail: str
    took_s: float

    @property
    def is_open(self) -> bool:
        """Return whether the connection came about, and the greeting if there was one."""
        return self.kind is Reached.OPEN


# A firewall that rejects looks like a closed port or like a missing route: icmp-port-unreachable
# (the default of iptables' REJECT) and tcp-reset give ECONNREFUSED, icmp-host-prohibited and
# icmp-admin-prohibited give EHOSTUNREACH (Linux, net/ipv4/icmp.c, icmp_err_convert).
TOLD = {
    Reached.OPEN: "{place} accepted the connection",
    Reached.REFUSED: "{place} refused the connection: nothing listens there, or a firewall "
    "rejects it",
    Reached.FILTERED: "no answer from {place} within {timeout_s:.3g} s: a firewall drops the "
    "packets, or the host is down",
    Reached.NO_ROUTE: "no way to {place} ({reason}): a route is missing, a firewall prohibits it, "
    "or the host is down",
    Reached.UNRESOLVED: "{reason}",
    Reached.CLOSED: "{place} accepted the connection and closed it at once: a proxy or sidecar, "
    "or another program",
    Reached.SILENT: "{place} accepted the connection and sent no answer within {timeout_s:.3g} s: "
    "a proxy or sidecar, or another program",
    Reached.OTHER: "{place} accepted the connection and gave an unexpected answer: another "
    "program listens there",
}


def reach(host: str, port: int, timeout_s: float) -> Reach:
    """Try to connect, to every address of the host, and close again; takes no longer than told."""
    with connected(host, port, timeout_s) as (_, reached):
        return reached


def greet(host: str, port: int, timeout_s: float, say: bytes, expect: bytes) -> Reach:
    """Connect, say something and wait for the expected answer; takes no longer than told."""
    begin = time.monotonic()
    with connected(host, port, timeout_s) as (connection, reached):
        if connection is None:
            return reached
        return greeted(connection, reached, begin + timeout_s, say, expect)


def greeted(connection: socket.socket, to: Reach, end: float, say: bytes, expect: bytes) -> Reach:
    """Say something on a connection that is open and wait, until then, for the expected answer."""
    begin = time.monotonic()
    kind = _answer(connection, end, say, expect)
    return _told(kind, to.address, begin - to.took_s, end - begin + to.took_s)


@contextmanager
def connected(
    host: str, port: int, timeout_s: float
) -> Generator[tuple[socket.socket | None, Reach]]:
    """Yield the connection, or None, and how the attempt ended; closes the connection."""
    begin = time.monotonic()
    asked = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    places = resolved(host, port, timeout_s)
    if isinstance(places, str):
        yield None, _told(Reached.UNRESOLVED, asked, begin, timeout_s, places)
        return
    found = ", ".join(dict.fromkeys(str(address[0]) for _, address in places))
    address = asked if found == host else f"{asked} ({found})"
    connection, code = _first_open(places, begin + timeout_s)
    reached = _told(_kind(code), address, begin, timeout_s, os.strerror(code))
    if connection is None:
        yield None, reached
        return
    with closing(connection):
        yield connection, reached


def resolved(host: str, port: int, timeout_s: float) -> list[Place] | str:
    """Return where the name leads to, each place once, or in words why it leads nowhere.

    The resolver keeps no bound of its own: a thread asks it, and is left behind.
    """
    if port not in PORTS:
        return f"{port} is no port"
    answers: list[list[Place] | str] = []
    asking = Thread(target=lambda: answers.append(_looked_up(host, port)), daemon=True)
    asking.start()
    asking.join(timeout_s)
    return answers[0] if answers else f"the name {host} did not resolve within {timeout_s:.3g} s"


def _looked_up(host: str, port: int) -> list[Place] | str:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        return f"the name {host} does not resolve ({error.strerror})"
    except (OSError, ValueError) as error:  # UnicodeError: a label that is empty or too long
        return f"{host!r} is no name of a host ({error})"
    return list(dict.fromkeys((family, address) for family, _, _, _, address in found))


def _first_open(places: Sequence[Place], end: float) -> tuple[socket.socket | None, int]:
    """Try all places at once; return the first that opens, or the most telling error."""
    codes: list[int] = []
    with ExitStack() as attempts, selectors.DefaultSelector() as pending:
        for family, address in places:
            codes += _begun(attempts, pending, family, address)
        while pending.get_map() and (left_s := end - time.monotonic()) > 0:
            for key, _ in pending.select(left_s):
                attempt: socket.socket = key.data
                pending.unregister(attempt)
                code = _ended(attempt)
                if not code:
                    attempt.setblocking(True)
                    return socket.socket(fileno=attempt.detach()), 0
                codes.append(code)
        codes += [errno.ETIMEDOUT] * len(pending.get_map())
    return None, min(codes, key=lambda code: tuple(Reached).index(_kind(code)))


def _begun(
    attempts: ExitStack,
    pending: selectors.BaseSelector,
    family: socket.AddressFamily,
    address: tuple[Any, ...],
) -> list[int]:
    """Begin to connect; return the error when that fails at once."""
    try:
        attempt = attempts.enter_context(socket.socket(family, socket.SOCK_STREAM))
        attempt.setblocking(False)
        code = attempt.connect_ex(address)
    except OSError as error:  # this kernel has no IPv6, or no more files
        return [error.errno or errno.EINVAL]
    if code in (0, errno.EINPROGRESS):
        pending.register(attempt, selectors.EVENT_WRITE, attempt)
        return []
    return [code]


def _ended(attempt: socket.socket) -> int:
    if code := attempt.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
        return code
    # Where nothing listens on a port of this machine, a socket can be given just that port.
    return errno.ECONNREFUSED if attempt.getsockname() == attempt.getpeername() else 0


def _kind(code: int) -> Reached:
    if code == 0:
        return Reached.OPEN
    if code in (errno.ECONNREFUSED, errno.ECONNRESET):
        return Reached.REFUSED
    return Reached.FILTERED if code == errno.ETIMEDOUT else Reached.NO_ROUTE


def _answer(connection: socket.socket, end: float, say: bytes, expect: bytes) -> Reached:
    heard = b""
    try:
        connection.settimeout(max(1e-3, end - time.monotonic()))
        connection.sendall(say)
        while len(heard) < len(expect):
            connection.settimeout(max(1e-3, end - time.monotonic()))
            more = connection.recv(len(expect) - len(heard))
            if not more:
                return Reached.OTHER if heard else Reached.CLOSED
            heard += more
            if not expect.startswith(heard):
                return Reached.OTHER
    except TimeoutError:
        return Reached.OTHER if heard else Reached.SILENT
    except OSError:
        return Reached.CLOSED
    return Reached.OPEN


def _told(kind: Reached, place: str, begin: float, timeout_s: float, reason: str = "") -> Reach:
    detail = TOLD[kind].format(place=place, timeout_s=timeout_s, reason=reason)
    return Reach(kind, place, detail, time.monotonic() - begin)
