"""Who holds a port of this machine: real sockets, of this process and of one of another user."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import psutil
import pytest

from ddpcheck.machine.ports import owner_of, owner_pid, program_of, why_not_opened
from ddpcheck.machine.sockets import ENDED, LISTENS, Held, bound_only, held_in

NOBODY = 65534
TABLE = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:733C 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 51423 1
   1: 0100007F:C350 0100007F:733C 01 00000000:00000000 00:00000000 00000000     0        0 51424 1
   2: 0100007F:C351 0100007F:733C 06 00000000:00000000 03:00000A1B 00000000     0        0 0 3
"""
HEADER = TABLE.splitlines()[0]


@pytest.fixture
def sockets() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def port_of(one: socket.socket) -> int:
    port: int = one.getsockname()[1]
    return port


def listening(sockets: ExitStack) -> int:
    return port_of(sockets.enter_context(socket.create_server(("127.0.0.1", 0))))


def bound(sockets: ExitStack) -> int:
    one = sockets.enter_context(socket.socket())
    one.bind(("", 0))
    return port_of(one)


def connected(sockets: ExitStack) -> int:
    place = ("127.0.0.1", listening(sockets))
    return port_of(sockets.enter_context(socket.create_connection(place)))


SERVER = (
    "import socket, sys\n"
    "server = socket.create_server(('127.0.0.1', 0))\n"
    "print(server.getsockname()[1], flush=True)\n"
    "sys.stdin.read()\n"
)


def own_words() -> list[str]:
    command = program_of(psutil.Process().cmdline())
    return [f"pid {os.getpid()} of user {psutil.Process().username()}", f"({command}"]


def test_a_listener_is_told_with_pid_user_and_command(sockets: ExitStack) -> None:
    port = listening(sockets)
    assert [word for word in own_words() if word not in owner_of(port)] == []
    assert owner_of(port).endswith(")")
    assert owner_pid(port) == os.getpid()
    assert why_not_opened(port) == "Address already in use"


def test_a_port_that_is_only_bound_has_an_owner(sockets: ExitStack) -> None:
    port = bound(sockets)
    if not bound_only(port):
        pytest.skip("this kernel, before Linux 6.8, does not tell of sockets that are only bound")
    words = [*own_words(), "bound to it without listening"]
    assert [word for word in words if word not in owner_of(port)] == []
    assert owner_pid(port) is None


def test_a_port_that_is_only_bound_cannot_be_opened(sockets: ExitStack) -> None:
    assert why_not_opened(bound(sockets)) == "Address already in use"


def test_the_own_port_of_a_connection_has_an_owner(sockets: ExitStack) -> None:
    port = connected(sockets)
    words = [*own_words(), "connected through it"]
    assert [word for word in words if word not in owner_of(port)] == []
    assert why_not_opened(port) == "Address already in use"


def test_a_free_port_has_no_owner_and_can_be_opened() -> None:
    with ExitStack() as sockets:
        port = listening(sockets)
    assert (owner_of(port), owner_pid(port), why_not_opened(port)) == ("", None, "")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_what_another_user_holds_is_told_with_that_user(sockets: ExitStack) -> None:
    port = listening(sockets)
    told = as_nobody(port, sockets)
    assert told == f"a process of user {psutil.Process().username()}"


def as_nobody(port: int, sockets: ExitStack) -> str:
    """Return what a user without rights is told of the port's owner."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            sockets.close()  # the child has them too
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os.write(writer, owner_of(port).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        told = answer.read()
    os.waitpid(child, 0)
    return told


def test_a_table_is_read_without_what_has_ended() -> None:
    assert list(held_in(TABLE)) == [
        Held(29500, LISTENS, 1000, 51423),
        Held(50000, 1, 0, 51424),
    ]
    assert ENDED not in {each.state for each in held_in(TABLE)}


@pytest.mark.parametrize("table", ["", HEADER])
def test_an_empty_table(table: str) -> None:
    assert list(held_in(table)) == []


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("/usr/sbin/mysqld -psecret --api-key secret secret", "/usr/sbin/mysqld"),
        ("/opt/bin/python3.11 -u train.py --api-key secret", "/opt/bin/python3.11 train.py"),
        ("python -m torch.distributed.run --token=secret", "python -m torch.distributed.run"),
        ("python -um http.server secret", "python -m http.server"),
        ("python3 -X dev -W error train.py secret", "python3 train.py"),
        ("python -c secret", "python -c"),
        ("python -uc secret", "python -c"),
        ("python -csecret", "python -c"),
        ("python -u", "python"),
        ("pypy3 serve.py secret", "pypy3 serve.py"),
        ("pythonish secret", "pythonish"),
        ("sshpass -p secret ssh node0", "sshpass"),
        ("", ""),
    ],
)
def test_only_the_program_of_a_command_is_told(command: str, told: str) -> None:
    assert program_of(command.split()) == told


def test_a_process_that_renamed_itself_is_one_word() -> None:
    assert program_of(["postgres: ann secret 10.0.0.1(4000) idle"]) == "postgres:"


def test_an_owner_is_named_without_its_arguments() -> None:
    command = [sys.executable, "-c", SERVER, "--api-key", "secret-of-another"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        told = owner_of(int(server.stdout.readline()))
        assert f"pid {server.pid}" in told
        assert told.endswith(f"({sys.executable} -c)")
        server.kill()
