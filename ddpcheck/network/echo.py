"""A listener for the other hosts of the run, and what a client can measure with it."""

import errno
import math
import socket
import statistics
import struct
import time
import zlib
from contextlib import closing, suppress
from threading import Thread

import msgspec

from ddpcheck.network.reach import Reach, Reached, connected, greet, greeted

HEAD = struct.Struct("!I")
PING = b"?"
PING_COUNT = 20
# At 1500 bytes a packet some 720 packets: the loss of one in a hundred shows, and a link of
# 1 Gbit/s is done in 9 ms.
LARGE_BYTES = 1 << 20
# So often at least the first large packet was sent before it counts as gone.
GONE_COUNT = 2
# Of the time for a visit, kept for trying whether small messages pass where the large one did not.
SECOND_TRY_S = 0.5
# More than a host has visits (see roster.py): strangers may take no more threads than that.
VISITS_COUNT = 256
# Where struct tcp_info has it, in bytes from its begin (Linux, include/uapi/linux/tcp.h).
PATH_MTU, RETRANSMITTED, ACKNOWLEDGED, ROUND_TRIP_MIN, SENT = 60, 100, 120, 148, 156
TCP_INFO_BYTES = 160  # before Linux 4.19
# Packets that the other side said it had twice (duplicate SACK, RFC 2883).
ARRIVED_TWICE, WHOLE_TCP_INFO_BYTES = 216, 220


class Listener(msgspec.Struct, frozen=True):
    """Where a listener is, and the token without which it tells nobody anything."""

    address: str
    port: int
    token: str


class Talk(msgspec.Struct, frozen=True):
    """What one visit to a listener measured.

    Round trips are in seconds, 0.0 when there was none; ``large_s`` is None when the large
    message did not arrive whole in time. Of it ``acknowledged_bytes`` were, and ``small_passes``
    tells whether a small message passed afterwards. Packets with data are counted, those sent
    again without those that had arrived before, and ``path_mtu_bytes`` is what the kernel knows
    of the path; 0 where it does not tell.
    """

    reach: Reach
    round_trip_min_s: float = 0.0
    round_trip_median_s: float = 0.0
    large_s: float | None = None
    acknowledged_bytes: int = 0
    small_passes: bool = False
    sent_count: int = 0
    retransmitted_count: int = 0
    path_mtu_bytes: int = 0

    @property
    def is_gone(self) -> bool:
        """Return whether nothing of the large message arrived, while small ones do."""
        small = self.round_trip_min_s > 0 and self.small_passes
        sent = self.acknowledged_bytes > 0 or self.large_s is not None
        return small and not sent and self.retransmitted_count >= GONE_COUNT

    @property
    def retransmitted_ratio(self) -> float:
        """Return which part of the packets with data had been sent before."""
        return self.retransmitted_count / max(1, self.sent_count)


class Counters(msgspec.Struct, frozen=True):
    """What the kernel tells of one connection: packets with data, bytes, the path's MTU.

    A busy host acknowledges late, and is sent again what it has: those packets did not get lost,
    and ``retransmitted_count`` leaves them out (seen: 42 of 789, on two cores with four busy
    processes).
    """

    round_trip_min_s: float = math.inf
    sent_count: int = 0
    retransmitted_count: int = 0
    acknowledged_bytes: int = 0
    path_mtu_bytes: int = 0


def listen(address: str, token: str, lifetime_s: float) -> Listener:
    """Open a listener on a free port of this address, which closes by itself; raises OSError."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.create_server((address, 0), family=family, backlog=VISITS_COUNT)
    end = time.monotonic() + lifetime_s
    Thread(target=_serve, args=(listener, token, end), daemon=True).start()
    return Listener(address, listener.getsockname()[1], token)


def words(token: str) -> tuple[bytes, bytes]:
    """Return what a visitor says first, and what it hears."""
    return f"ddpcheck? {token}".encode(), f"ddpcheck! {token}".encode()


def visit(listener: Listener, timeout_s: float) -> Reach:
    """Return whether the listener is there and answers; takes no longer than told."""
    return greet(listener.address, listener.port, timeout_s, *words(listener.token))


def patient_visit(listener: Listener, timeout_s: float, answer_s: float) -> Reach:
    """Visit once more, for ``answer_s``, who took the connection and did not answer in time."""
    reached = visit(listener, timeout_s)
    return visit(listener, answer_s) if reached.kind is Reached.SILENT else reached


def talk(listener: Listener, timeout_s: float) -> Talk:
    """Visit a listener, measure round trips and send a large message, within so many seconds."""
    end = time.monotonic() + timeout_s
    with connected(listener.address, listener.port, timeout_s) as (connection, reached):
        if connection is None:
            return Talk(reached)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        heard = greeted(connection, reached, end, *words(listener.token))
        if not heard.is_open:
            return Talk(heard)
        told = _measured(connection, heard, end - SECOND_TRY_S)
    if told.large_s is None:
        again = visit(listener, max(SECOND_TRY_S, end - time.monotonic()))
        return msgspec.structs.replace(told, small_passes=again.is_open)
    return msgspec.structs.replace(told, small_passes=True)


def counters(connection: socket.socket) -> Counters:
    """Return what the kernel has counted of this connection; zeros where it counts nothing."""
    with suppress(AttributeError, OSError):  # not Linux
        return counted(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256))
    return Counters()


def counted(info: bytes) -> Counters:
    """Return what a ``struct tcp_info`` says; older kernels' are shorter."""
    if len(info) < TCP_INFO_BYTES:  # before Linux 4.6
        return Counters()
    is_whole = len(info) >= WHOLE_TCP_INFO_BYTES
    twice = struct.unpack_from("=I", info, ARRIVED_TWICE)[0] if is_whole else 0
    return Counters(
        round_trip_min_s=struct.unpack_from("=I", info, ROUND_TRIP_MIN)[0] / 1e6 or math.inf,
        sent_count=struct.unpack_from("=I", info, SENT)[0],
        retransmitted_count=max(0, struct.unpack_from("=I", info, RETRANSMITTED)[0] - twice),
        acknowledged_bytes=struct.unpack_from("=Q", info, ACKNOWLEDGED)[0],
        path_mtu_bytes=struct.unpack_from("=I", info, PATH_MTU)[0],
    )


def _measured(connection: socket.socket, reached: Reach, end: float) -> Talk:
    trips: list[float] = []
    large_s = None
    before = counters(connection)
    with suppress(OSError):  # the time is up, or the connection is gone: then that is the answer
        trips.extend(_round_trip(connection, PING, end) for _ in range(PING_COUNT))
        before = counters(connection)
        large_s = _round_trip(connection, bytes(LARGE_BYTES), end)
    after = counters(connection)
    return Talk(
        reach=reached,
        # The kernel's own, since it needs no process to be awake on the other side.
        round_trip_min_s=min(trips, default=0.0) and min(*trips, after.round_trip_min_s),
        round_trip_median_s=statistics.median(trips) if trips else 0.0,
        large_s=large_s,
        acknowledged_bytes=after.acknowledged_bytes - before.acknowledged_bytes,
        sent_count=after.sent_count,
        retransmitted_count=after.retransmitted_count,
        path_mtu_bytes=after.path_mtu_bytes,
    )


def _round_trip(connection: socket.socket, message: bytes, end: float) -> float:
    """Return how long it took until the listener had the whole message, and had said so."""
    begin = time.perf_counter()
    connection.settimeout(_left_s(end))
    connection.sendall(HEAD.pack(len(message)) + message)
    if _received(connection, HEAD.size, end) != HEAD.pack(zlib.crc32(message)):
        raise OSError(errno.EBADMSG, "the message arrived otherwise than it was sent")
    return time.perf_counter() - begin


def _serve(listener: socket.socket, token: str, end: float) -> None:
    with closing(listener), suppress(OSError):
        for _ in range(VISITS_COUNT):
            listener.settimeout(_left_s(end))
            connection, _ = listener.accept()
            Thread(target=_answer, args=(connection, token, end), daemon=True).start()


def _answer(connection: socket.socket, token: str, end: float) -> None:
    say, answer = words(token)
    with closing(connection), suppress(OSError):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if _received(connection, len(say), end) != say:
            return
        connection.sendall(answer)
        while head := _received(connection, HEAD.size, end):
            (size,) = HEAD.unpack(head)
            message = _received(connection, min(size, LARGE_BYTES), end)
            connection.sendall(HEAD.pack(zlib.crc32(message)))


def _received(connection: socket.socket, size: int, end: float) -> bytes:
    """Return so many bytes, or b'' when the other side closed before; raises TimeoutError."""
    whole = bytearray()
    while len(whole) < size:
        connection.settimeout(_left_s(end))
        part = connection.recv(size - len(whole))
        if not part:
            return b""
        whole += part
    return bytes(whole)


def _left_s(end: float) -> float:
    """Return the time left; raises TimeoutError when it is up."""
    left_s = end - time.monotonic()
    if left_s <= 0:
        raise TimeoutError("the time is up")
    return left_s
