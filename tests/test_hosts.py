import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from hosts import INTERFACE, Host, made_hosts, run_ranks, run_torchrun
from namespaces import why_not
from real_ranks import Ended

RESOLVE = "import socket, sys; print(socket.gethostbyname(sys.argv[1]))"
CONNECT = (
    "import socket, sys\n"
    "try:\n"
    "    socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=0.5)\n"
    "except OSError as error:\n"
    "    print(type(error).__name__)\n"
)
LISTEN = (
    "import socket\n"
    "with socket.create_server(('0.0.0.0', 0)) as listener:\n"
    "    print(listener.getsockname()[1], flush=True)\n"
    "    while True:\n"
    "        listener.accept()\n"
)


def python(source: str, *words: object) -> list[str]:
    return [sys.executable, "-c", source, *map(str, words)]


def test_hosts_have_names_addresses_and_interfaces_of_their_own() -> None:
    with made_hosts(2, names=("alpha", "beta")) as hosts:
        for host, name in zip(hosts, ("alpha", "beta"), strict=True):
            assert host.run(["uname", "-n"]).stdout == f"{name}\n" == f"{host.name}\n"
            assert set(host.run(["ls", "/sys/class/net"]).stdout.split()) == {"lo", INTERFACE}
            assert f"inet {host.address}/24" in host.ip("address", "show", host.interface)
            told = [each.run(python(RESOLVE, name)).stdout.strip() for each in hosts]
            assert told == [host.address] * 2
        assert hosts[0].address != hosts[1].address


def test_the_machines_own_network_and_name_stay_as_they_are() -> None:
    seen = [socket.gethostname(), sorted(psutil.net_if_addrs()), Path("/etc/hosts").read_text()]
    with made_hosts(1) as (host,):
        host.add_interface("docker0", "172.17.0.1/16")
        host.set_etc_hosts("127.0.1.1 host0\n")
        assert host.run(python(RESOLVE, "host0")).stdout == "127.0.1.1\n"
        now = [socket.gethostname(), sorted(psutil.net_if_addrs()), Path("/etc/hosts").read_text()]
        assert now == seen


def test_hosts_reach_each_other_until_the_firewall_says_no() -> None:
    with made_hosts() as (here, there):
        listener = there.start(python(LISTEN), stdout=subprocess.PIPE)
        assert listener.stdout is not None
        port = listener.stdout.readline().strip()
        call = python(CONNECT, there.address, port)
        assert here.run(call).stdout == ""
        # Each host's loopback is its own.
        assert here.run(python(CONNECT, "127.0.0.1", port)).stdout == "ConnectionRefusedError\n"
        there.iptables("-A", "INPUT", "-p", "tcp", "--dport", port, "-j", "DROP")
        assert here.run(call).stdout == "TimeoutError\n"
        listener.stdout.close()
    assert listener.wait() < 0


@pytest.mark.parametrize("kind", ["bridge", "veth", "tun", "loose"])
def test_interfaces_can_be_added(kind: str) -> None:
    with made_hosts(1) as (host,):
        host.add_interface("more0", "172.17.0.1/16", kind)
        host.add_address("fd77::1/64", "more0")
        told = host.ip("address", "show", "more0")
        assert "172.17.0.1/16" in told
        assert "fd77::1/64" in told
        assert "UP" in told


def test_environment_folder_and_timeout_of_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "7")
    with made_hosts(1) as (host,):
        told = host.run(["sh", "-c", 'pwd; echo "$RANK$OWN"'], env={"OWN": "8"}, cwd=tmp_path)
        assert told.stdout.split() == [str(tmp_path), "8"]
        with pytest.raises(subprocess.TimeoutExpired):
            host.run(["sleep", "1000"], timeout=0.1)
        assert host.processes() == []
        with pytest.raises(AssertionError, match="nothing0"):
            host.ip("link", "show", "nothing0")


def fail_on(made: list[Host], nap: str) -> None:
    with made_hosts(2) as hosts:
        made += hosts
        for host in hosts:
            host.start(["sh", "-c", f"sleep {nap} & exec sleep {nap}"])
        raise ZeroDivisionError


def test_nothing_outlives_a_test_that_fails() -> None:
    made: list[Host] = []
    # Nobody else sleeps so long.
    nap = str(1_000_000 + os.getpid())
    with pytest.raises(ZeroDivisionError):
        fail_on(made, nap)
    assert [host.started[-1].wait() < 0 for host in made] == [True, True]
    assert [
        each for each in psutil.process_iter(["cmdline"]) if nap in (each.info["cmdline"] or [])
    ] == []
    assert [host for host in made if psutil.pid_exists(host.pid) or host.folder.exists()] == []


def test_nothing_outlives_a_test_process_that_is_killed() -> None:
    if reason := why_not():
        pytest.skip(reason)
    source = (
        "from hosts import made_hosts\n"
        "with made_hosts(1) as (host,):\n"
        "    print(host.pid, flush=True)\n"
        "    input()\n"
    )
    command = [sys.executable, "-c", source]
    pipe = subprocess.PIPE
    place = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=place) as process:
        assert process.stdout is not None
        holder = psutil.Process(int(process.stdout.readline()))
        process.kill()
    assert psutil.wait_procs([holder], timeout=10)[1] == []


@pytest.mark.parametrize("launch", [run_ranks, run_torchrun])
def test_a_healthy_pair_of_hosts_passes(launch: Callable[..., Ended], tmp_path: Path) -> None:
    with made_hosts(2) as hosts:
        ended = launch(tmp_path / "reports", hosts)
        assert ended.exit_codes == (0, 0), ended.stderr
        assert ended.found() == {}
        assert [each.host for each in ended.report.ranks] == ["host0", "host1"]
        # The store's host leaves a moment after the ranks that said farewell to it.
        left = [process for host in hosts for process in host.processes()]
        assert psutil.wait_procs(left, timeout=10)[1] == []
