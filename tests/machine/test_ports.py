import socket
import subprocess
import sys

import pytest

from ddpcheck.machine.ports import owner_of, program_of

SERVER = (
    "import socket, sys\n"
    "server = socket.create_server(('127.0.0.1', 0))\n"
    "print(server.getsockname()[1], flush=True)\n"
    "sys.stdin.read()\n"
)


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


def test_nobody_owns_a_free_port() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # and does not listen
        assert owner_of(bound.getsockname()[1]) == ""
