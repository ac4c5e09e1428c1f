"""The TCP sockets of this network namespace, as the kernel tells of them.

Sources: Linux, Documentation/networking/proc_net_tcp.rst; include/uapi/linux/inet_diag.h,
sock_diag.h and netlink.h; include/net/tcp_states.h.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import msgspec

ENDED, LISTENS, ONLY_BOUND = 6, 10, 13

# A socket that is bound and does neither listen nor connect stands in no file of /proc. The kernel
# tells of it when asked through netlink, since Linux 6.8.
NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY, DONE, ERROR = 20, 3, 2
REQUEST, DUMP = 0x01, 0x300
HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, pid
QUESTION = struct.Struct("=BBBxI48x")  # family, protocol, extensions, states; any socket
# Family, state, timer, retransmissions; ports; addresses, interface and cookie; timers and queues;
# user and inode.
ANSWER = struct.Struct("=BBBB2s2s44x12xII")
CHUNK_BYTES = 1 << 16
LIMIT_S = 1.0
FAMILIES = (socket.AF_INET, socket.AF_INET6)


class Held(msgspec.Struct, frozen=True):
    """One socket: its local port, its state, the number of its user, and its inode."""

    port: int
    state: int
    user: int
    inode: int


def held_in(table: str) -> Iterator[Held]:
    """Yield the sockets in a table such as /proc/net/tcp, but for those that have ended."""
    for line in table.splitlines()[1:]:
        words = line.split()
        state = int(words[3], 16)
        # What waits for late packets lets others have its port.
        if state != ENDED:
            port = int(words[1].rpartition(":")[2], 16)
            yield Held(port, state, int(words[7]), int(words[9]))


def bound_only(port: int) -> list[Held]:
    """Return the sockets that are bound to the port and nothing else; none where Linux is older."""
    try:
        found = [held for family in FAMILIES for held in _told(family)]
    except OSError:
        return []
    return [held for held in found if held.port == port]


def _told(family: int) -> Iterator[Held]:
    question = QUESTION.pack(family, socket.IPPROTO_TCP, 0, 1 << ONLY_BOUND)
    length = HEADER.size + len(question)
    header = HEADER.pack(length, SOCK_DIAG_BY_FAMILY, REQUEST | DUMP, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(LIMIT_S)
        kernel.send(header + question)
        while True:
            chunk = kernel.recv(CHUNK_BYTES)
            for kind, body in _messages(chunk):
                if kind in (DONE, ERROR):
                    return
                *_, port, _, user, inode = ANSWER.unpack_from(body)
                yield Held(int.from_bytes(port, "big"), ONLY_BOUND, user, inode)


def _messages(chunk: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + HEADER.size <= len(chunk):
        length, kind, *_ = HEADER.unpack_from(chunk, at)
        yield kind, chunk[at + HEADER.size : at + length]
        at += (max(length, HEADER.size) + 3) & ~3  # messages begin at multiples of four
