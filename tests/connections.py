"""What the kernel knows of this process's TCP connections."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

# Where struct tcp_info of linux/tcp.h has tcpi_bytes_acked and tcpi_bytes_received, both of 8 bytes.
COUNTED_AT = 120
COUNTED = struct.Struct("=QQ")


def free_port() -> int:
    """Return a port that nobody listens at."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def wire_bytes() -> tuple[int, int]:
    """Return the bytes of payload sent and received on all TCP connections that are open here."""
    counts = [_counted(each) for each in _connections()]
    return sum(sent for sent, _ in counts), sum(received for _, received in counts)


def _counted(connection: socket.socket) -> tuple[int, int]:
    with connection:
        told = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, COUNTED_AT + COUNTED.size)
    sent, received = COUNTED.unpack_from(told, COUNTED_AT)
    return sent, received


def _connections() -> Iterator[socket.socket]:
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            if not str(entry.readlink()).startswith("socket:"):
                continue
            held = socket.socket(fileno=os.dup(int(entry.name)))
            if held.type == socket.SOCK_STREAM and held.family != socket.AF_UNIX:
                yield held
            else:
                held.close()
