import socket
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from threading import Event, Thread

import pytest
from answers import always

from ddpcheck.network import reach as module
from ddpcheck.network.reach import Reached, connected, greet, reach, resolved

# Nobody may wait this long where an answer comes at once.
AMPLE_S = 10.0
SHORT_S = 0.2
SAY, EXPECT = b"hello?", b"hello!"


@contextmanager
def listening(
    serve: Callable[[socket.socket], None], family: int = socket.AF_INET
) -> Generator[int]:
    """Serve one connection on a port of loopback that is free."""
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0))
        listener.listen()

        def accept() -> None:
            with closing(listener.accept()[0]) as connection:
                serve(connection)

        accepting = Thread(target=accept, daemon=True)
        accepting.start()
        yield listener.getsockname()[1]
        accepting.join()


def answering(answer: bytes) -> Callable[[socket.socket], None]:
    def serve(connection: socket.socket) -> None:
        connection.recv(len(SAY))
        connection.sendall(answer)

    return serve


def unused_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def test_a_listener_is_open() -> None:
    with listening(lambda _: None) as port:
        reached = reach("127.0.0.1", port, AMPLE_S)
    assert (reached.kind, reached.address) == (Reached.OPEN, f"127.0.0.1:{port}")
    assert 0 <= reached.took_s < AMPLE_S


def test_a_name_is_told_with_what_it_resolves_to() -> None:
    with listening(lambda _: None) as port:
        reached = reach("localhost", port, AMPLE_S)
    assert reached.is_open
    assert f"localhost:{port} (" in reached.address
    assert "127.0.0.1" in reached.address


def test_ipv6() -> None:
    with listening(lambda _: None, socket.AF_INET6) as port:
        reached = reach("::1", port, AMPLE_S)
    assert (reached.kind, reached.address) == (Reached.OPEN, f"[::1]:{port}")


def test_all_addresses_of_a_name_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening(lambda _: None) as port:
        places = [(socket.AF_INET, (f"127.0.0.{last}", port)) for last in (2, 3, 1)]
        monkeypatch.setattr(module, "_looked_up", always(places))
        assert reach("node1", port, AMPLE_S).is_open


def test_a_port_where_nothing_listens_refuses() -> None:
    reached = reach("127.0.0.1", unused_port(), AMPLE_S)
    assert reached.kind is Reached.REFUSED
    assert "nothing listens" in reached.detail
    assert "firewall" in reached.detail


def test_an_address_without_a_route() -> None:
    # The kernel sends nothing to a link-local address whose interface is not told.
    reached = reach("fe80::1", 1, AMPLE_S)
    assert reached.kind is Reached.NO_ROUTE


def test_the_most_telling_failure_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    port = unused_port()
    places = [(socket.AF_INET6, ("fe80::1", port, 0, 0)), (socket.AF_INET, ("127.0.0.1", port))]
    monkeypatch.setattr(module, "_looked_up", always(places))
    assert reach("node1", port, AMPLE_S).kind is Reached.REFUSED


@pytest.mark.parametrize(
    "host",
    ["no-such-host.invalid", "a..b", "x" * 70, "", "nul\0nul", "two words"],
)
def test_a_name_that_does_not_resolve(host: str) -> None:
    reached = reach(host, 29500, AMPLE_S)
    assert reached.kind is Reached.UNRESOLVED
    assert "{" not in reached.detail


@pytest.mark.parametrize("port", [-1, 0, 65536, 70000])
def test_what_is_no_port(port: int) -> None:
    reached = reach("127.0.0.1", port, AMPLE_S)
    assert (reached.kind, reached.detail) == (Reached.UNRESOLVED, f"{port} is no port")


def test_a_name_server_that_does_not_answer_takes_no_longer_than_the_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer = Event()

    def hang(*_: object) -> str:
        answer.wait(AMPLE_S)
        return ""

    monkeypatch.setattr(module, "_looked_up", hang)
    begin = time.monotonic()
    assert "did not resolve within 0.2 s" in str(resolved("node1", 1, SHORT_S))
    assert time.monotonic() - begin < AMPLE_S
    answer.set()


def test_a_full_backlog_gives_no_answer() -> None:
    # A listener that never accepts drops what comes when its queue is full, as a firewall does.
    with socket.socket() as listener, socket.socket() as first:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        first.connect(listener.getsockname())
        reached = reach("127.0.0.1", listener.getsockname()[1], SHORT_S)
    assert reached.kind is Reached.FILTERED
    assert "within 0.2 s" in reached.detail
    assert reached.took_s >= SHORT_S


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (EXPECT, Reached.OPEN),
        (b"", Reached.CLOSED),
        (b"SSH-2.0-OpenSSH_9.6\r\n", Reached.OTHER),
        (EXPECT[:3], Reached.OTHER),
    ],
)
def test_greetings(answer: bytes, kind: Reached) -> None:
    with listening(answering(answer)) as port:
        assert greet("127.0.0.1", port, AMPLE_S, SAY, EXPECT).kind is kind


def test_a_listener_that_resets_is_closed() -> None:
    # Closing with unread input resets the connection.
    with listening(lambda connection: connection.close()) as port:
        reached = greet("127.0.0.1", port, AMPLE_S, SAY * 1000, EXPECT)
    assert reached.kind is Reached.CLOSED
    assert "sidecar" in reached.detail


def test_a_listener_that_never_answers_is_silent() -> None:
    done = Event()

    def wait(_: socket.socket) -> None:
        done.wait(AMPLE_S)

    with listening(wait) as port:
        reached = greet("127.0.0.1", port, SHORT_S, SAY, EXPECT)
        done.set()
    assert reached.kind is Reached.SILENT
    assert "sidecar" in reached.detail
    assert reached.took_s >= SHORT_S


def test_who_cannot_be_reached_is_not_greeted() -> None:
    assert greet("127.0.0.1", unused_port(), AMPLE_S, SAY, EXPECT).kind is Reached.REFUSED


def test_the_connection_is_usable_and_closed_afterwards() -> None:
    with (
        listening(answering(EXPECT)) as port,
        connected("127.0.0.1", port, AMPLE_S) as (connection, reached),
    ):
        assert reached.is_open
        assert connection is not None
        connection.sendall(SAY)
        assert connection.recv(100) == EXPECT
    assert connection.fileno() == -1
