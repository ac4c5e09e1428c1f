"""The first client of a store that is there, and cannot be connected to at once."""

import socket
import threading
import time
from contextlib import ExitStack
from dataclasses import replace

import pytest
from real_ranks import by_hand, free_port

from ddpcheck.launch import meeting
from ddpcheck.launch.identity import identity
from ddpcheck.launch.stores import TCPStore

TRY_S = 0.3
BUSY_S = 1.0


def open_later(port: int, full: ExitStack, opened: list[TCPStore]) -> None:
    """Let a store listen where until now connections are accepted by nobody."""
    time.sleep(BUSY_S)
    full.close()
    opened.append(TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False))


@pytest.mark.parametrize("is_hosted", [False, True])
def test_a_connection_that_comes_late_is_waited_for_until_the_deadline(
    monkeypatch: pytest.MonkeyPatch, *, is_hosted: bool
) -> None:
    monkeypatch.setattr(meeting, "HANDSHAKE_S", TRY_S)
    port = free_port()
    who = replace(identity(by_hand(1, 2, port)), store_is_hosted=is_hosted)
    opened: list[TCPStore] = []
    with ExitStack() as full:
        # Its queue is full: the kernel drops who else wants to connect.
        listener = full.enter_context(socket.create_server(("127.0.0.1", port), backlog=0))
        full.enter_context(socket.create_connection(listener.getsockname()))
        thread = threading.Thread(target=open_later, args=(port, full, opened))
        thread.start()
        client = meeting.first_client(who, time.monotonic() + 30)
        thread.join()
    client.set("key", "value")
    assert opened[0].get("key") == b"value"
