"""Ranks, and nodes, on hosts that cannot reach each other, each for a reason of its own."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hosts import PORT, Host, made_hosts, run_ranks

from ddpcheck.finding import Severity
from ddpcheck.report import Report, Verdict, read_report

DEADLINE_S = 4
# The promise: what is wrong is said within this time. It holds for the command, not for Python's
# own start on a busy machine.
PROMISE_S = 10
BOUND_S = PROMISE_S + 10
SILENT = (
    "import socket, sys\n"
    f"with socket.create_server(('0.0.0.0', {PORT})) as listener:\n"
    "    print('ready', flush=True)\n"
    "    held = []\n"
    "    while True:\n"
    "        held.append(listener.accept())\n"
)


@pytest.fixture
def hosts() -> Iterator[list[Host]]:
    with made_hosts(2, names=("node0", "node1")) as made:
        yield made


def drop(first: Host, _second: Host) -> None:
    first.iptables("-A", "INPUT", "-p", "tcp", "--dport", str(PORT), "-i", "eth0", "-j", "DROP")


def reject(first: Host, _second: Host) -> None:
    words = ("-p", "tcp", "--dport", str(PORT), "-i", "eth0")
    first.iptables("-A", "INPUT", *words, "-j", "REJECT", "--reject-with", "tcp-reset")


def prohibit(first: Host, _second: Host) -> None:
    words = ("-p", "tcp", "--dport", str(PORT), "-i", "eth0")
    first.iptables("-A", "INPUT", *words, "-j", "REJECT", "--reject-with", "icmp-host-prohibited")


def leave_no_route(first: Host, second: Host) -> None:
    second.ip("route", "add", "unreachable", f"{first.address}/32")


WAYS: dict[str, tuple[Callable[[Host, Host], None], str, str]] = {
    "DROP": (drop, "no answer", f"open TCP port {PORT} of 10.77.0.1 to node1"),
    "REJECT by reset": (reject, "refused", "start rank 0 on the host of 10.77.0.1"),
    "REJECT as prohibited": (prohibit, "prohibits", "give node1 a route to 10.77.0.1"),
    "no route": (leave_no_route, "a route is missing", "give node1 a route to 10.77.0.1"),
}


def report_of_the_cut_off(folder: Path) -> Report:
    reports = [read_report(file.parent) for file in folder.glob("ddpcheck-*/report.json")]
    return next(each for each in reports if each.run.hosts == ["node1"])


def cut(finding: object) -> bool:
    return getattr(finding, "id", "") == "launch/cannot-meet"


@pytest.mark.thorough  # test_why_hosts_cannot_meet.py has most of these ways
@pytest.mark.parametrize("way", WAYS)
def test_a_closed_port_is_told_by_the_host_that_meets_it(
    way: str, hosts: list[Host], tmp_path: Path
) -> None:
    close, words, fix = WAYS[way]
    close(*hosts)
    ended = run_ranks(tmp_path / "reports", hosts, "--deadline", str(DEADLINE_S))
    assert ended.exit_codes == (4, 4), ended.stderr
    report = report_of_the_cut_off(tmp_path / "reports")
    (finding,) = [each for each in report.findings if cut(each)]
    assert (finding.severity, finding.ranks) == (Severity.ERROR, (1,))
    assert "rank 1 on node1" in finding.message
    assert words in finding.message
    assert fix in finding.fix
    assert report.verdict is Verdict.INCOMPLETE
    assert ended.report_dir.exists()


def test_a_proxy_that_accepts_and_stays_silent_is_told(hosts: list[Host], tmp_path: Path) -> None:
    # As a sidecar does on each pod: what comes in at the port goes to it, and no further.
    hosts[0].iptables("-t", "nat", "-A", "PREROUTING", *redirected("15001"))
    with hosts[0].start(
        [sys.executable, "-c", SILENT.replace(str(PORT), "15001")], stdout=-1
    ) as proxy:
        assert proxy.stdout is not None
        proxy.stdout.readline()
        ended = run_ranks(tmp_path / "reports", hosts, "--deadline", str(DEADLINE_S))
        proxy.kill()
    assert ended.exit_codes == (4, 4), ended.stderr
    (finding,) = filter(cut, report_of_the_cut_off(tmp_path / "reports").findings)
    assert "does not answer as a store" in finding.message
    assert "sidecar.istio.io/inject: 'false'" in finding.fix


def redirected(port: str) -> tuple[str, ...]:
    words = ("-i", "eth0", "-p", "tcp", "--dport", str(PORT))
    return (*words, "-j", "REDIRECT", "--to-ports", port)


def node(number: int, master: str, cwd: Path, *options: str) -> list[str]:
    return [
        *(sys.executable, "-m", "ddpcheck", "run", "--profile", "quick", "--nproc-per-node", "1"),
        *("--nnodes", "2", "--node-rank", str(number), "--master-addr", master),
        *("--master-port", str(PORT), "--report-dir", str(cwd / "reports"), *options),
    ]


@pytest.mark.parametrize(
    "way", ["DROP", *(pytest.param(w, marks=pytest.mark.thorough) for w in WAYS if w != "DROP")]
)
def test_a_node_says_why_it_cannot_meet_the_first_before_any_agent_starts(
    way: str, hosts: list[Host], tmp_path: Path
) -> None:
    close, words, fix = WAYS[way]
    close(*hosts)
    master = hosts[0].address
    first = hosts[0].start(node(0, master, tmp_path, "--deadline", "6"), stdout=-1, stderr=-1)
    told = hosts[1].run(node(1, master, tmp_path, "--deadline", str(DEADLINE_S)), timeout=BOUND_S)
    assert told.returncode == 4
    assert "verdict: INCOMPLETE" in told.stdout
    assert "node 1 on node1 cannot meet the first node: " in told.stderr
    assert f"{master}:{PORT}" in told.stderr
    assert words in told.stderr
    _, waited = first.communicate(timeout=BOUND_S)
    assert first.returncode == 4
    assert "node 1 did not come" in waited
    (finding,) = filter(cut, report_of_the_cut_off(tmp_path / "reports").findings)
    assert (finding.severity, finding.ranks) == (Severity.ERROR, (1,))
    assert words in finding.message
    assert fix in finding.fix


def time_of_a_start(host: Host) -> float:
    began = time.monotonic()
    host.run([sys.executable, "-m", "ddpcheck", "--version"], check=True)
    return time.monotonic() - began


def test_the_reason_is_said_within_ten_seconds_whatever_the_deadline(
    hosts: list[Host], tmp_path: Path
) -> None:
    drop(*hosts)
    start_s = time_of_a_start(hosts[1])
    began = time.monotonic()
    second = hosts[1].start(node(1, hosts[0].address, tmp_path), stderr=subprocess.PIPE)
    assert second.stderr is not None
    line = second.stderr.readline()
    took_s = time.monotonic() - began
    second.kill()
    assert f"node 1 on node1: no answer from {hosts[0].address}:{PORT}" in line
    assert "a firewall drops the packets" in line
    assert took_s < start_s + PROMISE_S


def test_a_first_node_that_is_elsewhere_than_its_address_says_so(
    hosts: list[Host], tmp_path: Path
) -> None:
    told = hosts[0].run(node(0, hosts[1].address, tmp_path), timeout=BOUND_S)
    assert told.returncode == 4
    assert "does not lead to node0" in told.stderr


def test_two_nodes_that_meet_run_to_a_verdict(hosts: list[Host], tmp_path: Path) -> None:
    master = hosts[0].address
    second = hosts[1].start(node(1, master, tmp_path), stdout=-1, stderr=-1)
    first = hosts[0].run(node(0, master, tmp_path))
    second.communicate()
    assert (first.returncode, second.returncode) == (0, 0), first.stdout + first.stderr
    report = read_report(tmp_path / "reports" / "latest")
    assert [each for each in report.findings if each.severity is not Severity.INFO] == []
    assert (report.verdict, report.run.hosts) == (Verdict.PASS, ["node0", "node1"])
