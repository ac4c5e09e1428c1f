import socket
import time
from pathlib import Path
from threading import Thread

import pytest

from ddpcheck.network import echo
from ddpcheck.network.echo import (
    LARGE_BYTES,
    Listener,
    counted,
    counters,
    listen,
    patient_visit,
    talk,
    visit,
)
from ddpcheck.network.links import is_lossy
from ddpcheck.network.reach import Reached

AMPLE_S = 10.0
# Of a talk between two hosts whose cores were busy (Linux 6.18): 1 of 750 packets was sent again,
# and the other host said that it had it twice.
SENT_AGAIN_FOR_NOTHING = bytes.fromhex(
    "010000000007aa00e01c0300409c0000a805000018020000000000000000000000000000000000000000"
    "000000000000000000000000000000000000dc05000058fa0000a3070000670e0000b4000000a6010000"
    "a8050000030000000000000090380000010000004058d58002000000ffffffffffffffff760010000000"
    "00006100000000000000f30200002d000000000000000600000016000000ee020000005cd80502000000"
    "00fa000000000000204e0000000000000000000000000000ef020000000000000d031000000000009802"
    "000000000000010000000000000000000000005c1700"
)
HERE = "127.0.0.1"


def test_a_talk_on_loopback_loses_nothing() -> None:
    told = talk(listen(HERE, "token", AMPLE_S), AMPLE_S)
    assert told.reach.kind is Reached.OPEN
    assert 0 < told.round_trip_min_s <= told.round_trip_median_s < AMPLE_S
    assert told.large_s is not None
    assert told.acknowledged_bytes >= LARGE_BYTES
    assert told.small_passes
    # Where a thread waits for a core, the kernel sends the last packet again (RFC 8985, 7).
    assert not is_lossy(told)
    assert told.sent_count > 0
    # Linux caps a path's MTU at what an IP packet can say of its length.
    assert told.path_mtu_bytes == min(65535, int(Path("/sys/class/net/lo/mtu").read_text()))


def test_several_visitors_at_the_same_time() -> None:
    listener = listen(HERE, "token", AMPLE_S)
    told: list[echo.Talk] = []
    threads = [Thread(target=lambda: told.append(talk(listener, AMPLE_S))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [each.large_s is not None for each in told] == [True] * 8


def test_ipv6() -> None:
    assert visit(listen("::1", "token", AMPLE_S), AMPLE_S).is_open


def test_a_stranger_is_told_nothing() -> None:
    listener = listen(HERE, "token", AMPLE_S)
    stranger = Listener(HERE, listener.port, "other")
    assert visit(stranger, AMPLE_S).kind is Reached.CLOSED
    assert talk(stranger, AMPLE_S).large_s is None
    assert visit(listener, AMPLE_S).is_open


def test_a_listener_closes_itself() -> None:
    listener = listen(HERE, "token", 0.05)
    end = time.monotonic() + AMPLE_S
    while visit(listener, AMPLE_S).kind is not Reached.REFUSED:
        assert time.monotonic() < end


def test_a_listener_that_takes_the_large_message_and_never_answers() -> None:
    with socket.create_server((HERE, 0)) as server:
        say, answer = echo.words("token")

        def serve() -> None:
            for _ in range(2):
                connection, _ = server.accept()
                connection.recv(len(say))
                connection.sendall(answer)
                kept.append(connection)

        kept: list[socket.socket] = []
        Thread(target=serve, daemon=True).start()
        begin = time.monotonic()
        told = talk(Listener(HERE, server.getsockname()[1], "token"), 0.7)
        assert time.monotonic() - begin < AMPLE_S
    assert (told.reach.kind, told.large_s, told.round_trip_min_s) == (Reached.OPEN, None, 0.0)
    assert told.small_passes


def test_a_listener_that_answers_late_is_asked_again() -> None:
    with socket.create_server((HERE, 0)) as server:
        say, answer = echo.words("token")

        def serve() -> None:
            first, _ = server.accept()
            second, _ = server.accept()
            with first, second:
                second.recv(len(say))
                second.sendall(answer)

        serving = Thread(target=serve, daemon=True)
        serving.start()
        listener = Listener(HERE, server.getsockname()[1], "token")
        assert patient_visit(listener, 0.1, AMPLE_S).is_open
        serving.join()


def test_who_refuses_is_asked_once() -> None:
    with socket.create_server((HERE, 0)) as server:
        port = server.getsockname()[1]
    assert patient_visit(Listener(HERE, port, ""), 1.0, AMPLE_S).kind is Reached.REFUSED


def test_an_address_of_another_machine_is_no_place_to_listen() -> None:
    with pytest.raises(OSError, match="assign"):
        listen("192.0.2.1", "token", AMPLE_S)


def test_what_was_sent_again_though_it_had_arrived_is_not_lost() -> None:
    told = counted(SENT_AGAIN_FOR_NOTHING)
    assert (told.sent_count, told.retransmitted_count) == (750, 0)


@pytest.mark.parametrize("length", [216, 232], ids=["a kernel that does not tell", "truly lost"])
def test_what_was_sent_again_for_a_reason_is_lost(length: int) -> None:
    info = SENT_AGAIN_FOR_NOTHING[:216] + bytes(len(SENT_AGAIN_FOR_NOTHING) - 216)
    assert counted(info[:length]).retransmitted_count == 1


def test_counters_are_zero_where_the_kernel_tells_little(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as connection:
        monkeypatch.setattr(echo, "TCP_INFO_BYTES", 1000)
        assert counters(connection).sent_count == 0
        monkeypatch.delattr(socket, "TCP_INFO")
        assert counters(connection).sent_count == 0
