"""The node at the place where the agents will meet: it listens, counts, and tells all to go on."""

from __future__ import annotations

import secrets
import select
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from threading import Thread
from typing import TypeVar

import msgspec

from ddpcheck.errors import ABSENT, LaunchError, MeetingError
from ddpcheck.network.reach import Reach, greet

T = TypeVar("T")
Say = Callable[[str], object]

# An unfinished meeting is told about after so long, and again after each such time.
NEWS_S = 5.0
LOOK_S = 0.2
# What answers as a node does so at once; a proxy, or a stranger, may never.
ANSWER_S = 5.0
HELLO_S = 1.0
LINE_BYTES = 4096
SHOWN_COUNT = 8


class Node(msgspec.Struct, frozen=True):
    """One host's share of the job, as its command says; ``test`` is the first node's own try."""

    node_rank: int
    nnodes: int
    host: str
    pid: int
    test: str = ""


class Answer(msgspec.Struct, frozen=True):
    """What the first node says: to wait, to go on, or why not; ``echo`` answers a ``test``."""

    go: bool = False
    error: str = ""
    missing: str = ""
    echo: str = ""


@dataclass(frozen=True)
class Place:
    """Where the agents will meet."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class First:
    """The node at the meeting place: it listens, counts, and tells all to go on."""

    def __init__(self, me: Node, place: Place, listener: socket.socket, *, numbered: bool) -> None:
        self._me = me
        self._place = place
        self._listener = listener
        self._numbered = numbered
        self._came: dict[tuple[str, int], tuple[Node, socket.socket | None]] = {
            (me.host, me.pid): (me, None)
        }
        self._test = secrets.token_hex(8)
        self._tried: list[Reach] = []

    def wait(self, until: float, say: Say) -> None:
        """Return when all nodes have come; raises LaunchError when they do not, or cannot."""
        Thread(target=self._try_own_place, daemon=True).start()
        self._listener.settimeout(LOOK_S)
        news_at = time.monotonic() + NEWS_S
        try:
            while len(self._came) < self._me.nnodes:
                self._hear()
                self._check_own_place()
                self._give_up_after(until)
                if time.monotonic() > news_at:
                    news_at = time.monotonic() + NEWS_S
                    say(f"ddpcheck: at {self._place}: waiting for {self._missing()}\n")
            self._tell(Answer(go=True))
        except LaunchError as error:
            self._tell(Answer(error=str(error)))
            raise

    def _give_up_after(self, until: float) -> None:
        if time.monotonic() > until:
            told = f"at {self._place}: {self._missing()} did not come: start the same command there"
            missing = self._absent() if self._numbered else ()
            raise MeetingError(told, ABSENT, missing=missing)

    def _try_own_place(self) -> None:
        me = msgspec.structs.replace(self._me, test=self._test)
        hello, echo = msgspec.json.encode(me) + b"\n", msgspec.json.encode(Answer(echo=self._test))
        self._tried.append(greet(self._place.host, self._place.port, ANSWER_S, hello, echo))

    def _check_own_place(self) -> None:
        if self._tried and not self._tried[0].is_open:
            raise LaunchError(
                f"{self._place} does not lead to {self._me.host}, which is to be the first node "
                f"({self._tried[0].detail}): give the address of that host, as all nodes see it"
            )

    def _hear(self) -> None:
        with suppress(OSError):
            connection, _ = self._listener.accept()
            connection.settimeout(HELLO_S)
            node = read(connection, Node)
            if node is None:
                connection.close()
            elif node.test:
                write(connection, Answer(echo=node.test))
                connection.close()
            else:
                self._forget_the_gone()
                self._came[node.host, node.pid] = (node, connection)
                self._refuse_what_contradicts(node)
                write(connection, Answer(missing=self._missing()))

    def _forget_the_gone(self) -> None:
        """Let those that have given up come again."""
        self._came = {
            key: (node, connection)
            for key, (node, connection) in self._came.items()
            if connection is None or not _is_closed(connection)
        }

    def _refuse_what_contradicts(self, node: Node) -> None:
        if node.nnodes != self._me.nnodes:
            raise LaunchError(
                f"--nnodes is {self._me.nnodes} on {self._me.host} and {node.nnodes} on {node.host}"
            )
        same = [each for each, _ in self._came.values() if each.node_rank == node.node_rank]
        if self._numbered and len(same) > 1:
            hosts = " and ".join(each.host for each in same)
            raise LaunchError(f"--node-rank is {node.node_rank} on {hosts}: each needs its own")

    def _absent(self) -> list[int]:
        numbers = {node.node_rank for node, _ in self._came.values()}
        return [n for n in range(self._me.nnodes) if n not in numbers]

    def _missing(self) -> str:
        if self._numbered:
            absent = [str(number) for number in self._absent()]
            few = len(absent) <= SHOWN_COUNT
            return f"node {', '.join(absent)}" if few else f"{len(absent)} nodes"
        return f"{self._me.nnodes - len(self._came)} of {self._me.nnodes} nodes"

    def _tell(self, answer: Answer) -> None:
        for _, connection in self._came.values():
            if connection is not None:
                with suppress(OSError):  # a node that has gone fails in its agent, with its number
                    write(connection, answer)
                    connection.close()


def write(connection: socket.socket, message: msgspec.Struct) -> None:
    """Send a message, as one line."""
    connection.sendall(msgspec.json.encode(message) + b"\n")


def read(connection: socket.socket, kind: type[T]) -> T | None:
    """Return the message in the next line, or None when there is none."""
    line = b""
    with suppress(OSError):
        while not line.endswith(b"\n") and len(line) < LINE_BYTES:
            piece = connection.recv(1)
            if not piece:
                return None
            line += piece
    with suppress(msgspec.DecodeError, msgspec.ValidationError):
        return msgspec.json.decode(line, type=kind)
    return None


def _is_closed(connection: socket.socket) -> bool:
    """Return whether the other side, which has nothing more to say, has closed."""
    poller = select.poll()
    poller.register(connection, select.POLLIN)
    return bool(poller.poll(0))
