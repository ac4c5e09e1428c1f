"""How fast TCP is within this host: what gloo could reach there at best."""

from __future__ import annotations

import socket
import time
from threading import Thread

CHUNK_BYTES = 1 << 20
PATIENCE_S = 5.0


def loopback_gbps(chunks: int) -> float:
    """Return decimal GB/s of that many MiB through one connection on the loopback interface.

    Raises OSError when there is no such interface, or it does not work.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE_S)
        reader = Thread(target=_read, args=(server, chunks), daemon=True)
        reader.start()
        with socket.create_connection(server.getsockname(), PATIENCE_S) as out:
            chunk = bytes(CHUNK_BYTES)
            began = time.perf_counter()
            for _ in range(chunks):
                out.sendall(chunk)
            reader.join(PATIENCE_S)
            took_s = time.perf_counter() - began
    return chunks * CHUNK_BYTES / took_s / 1e9


def _read(server: socket.socket, chunks: int) -> None:
    taken, _ = server.accept()
    into, left = bytearray(CHUNK_BYTES), chunks * CHUNK_BYTES
    with taken:
        while left and (count := taken.recv_into(into)):
            left -= count
