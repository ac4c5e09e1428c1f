"""Each cause that keeps two hosts apart is told with the fix that is its own."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from hosts import PORT, Host, made_hosts, run_ranks

from ddpcheck.finding import Finding, Severity
from ddpcheck.report import Verdict, read_report

DEADLINE_S = 4
PROXY_PORT = 15001
TO_THE_STORE = ("-i", "eth0", "-p", "tcp", "--dport", str(PORT))
# A sidecar that takes what comes in, and lets nothing through.
PROXY = f"""
import socket, sys
with socket.create_server(("0.0.0.0", {PROXY_PORT})) as listener:
    print("ready", flush=True)
    held = []
    while True:
        held.append(listener.accept()[0])
        if sys.argv[1] == "closes":
            held.pop().close()
"""


def drop(first: Host, _stack: ExitStack) -> None:
    first.iptables("-A", "INPUT", *TO_THE_STORE, "-j", "DROP")


def prohibit(first: Host, _stack: ExitStack) -> None:
    words = ("-j", "REJECT", "--reject-with", "icmp-host-prohibited")
    first.iptables("-A", "INPUT", *TO_THE_STORE, *words)


def proxy_that(does: str) -> Callable[[Host, ExitStack], None]:
    def redirect(first: Host, stack: ExitStack) -> None:
        words = ("-j", "REDIRECT", "--to-ports", str(PROXY_PORT))
        first.iptables("-t", "nat", "-A", "PREROUTING", *TO_THE_STORE, *words)
        proxy = first.start([sys.executable, "-c", PROXY, does], stdout=-1)
        stack.callback(proxy.kill)
        assert proxy.stdout is not None
        proxy.stdout.readline()

    return redirect


def nothing(_first: Host, _stack: ExitStack) -> None:
    pass


@dataclass(frozen=True)
class Cause:
    """What is done to the first host, what the second is told, and the fix that names it."""

    make: Callable[[Host, ExitStack], None]
    fix: str
    message: str
    second: Mapping[str, str]


CAUSES = {
    "firewall": Cause(drop, f"open TCP port {PORT} of 10.77.0.1 to node1", "no answer", {}),
    "prohibited": Cause(prohibit, "give node1 a route to 10.77.0.1", "prohibits", {}),
    "no route": Cause(
        nothing,
        "give node1 a route to 10.99.0.1, or set MASTER_ADDR to an address of rank 0's host",
        "a route is missing",
        {"MASTER_ADDR": "10.99.0.1"},
    ),
    "another MASTER_PORT": Cause(
        nothing,
        "hand one MASTER_PORT to all ranks: here it is 29501",
        "10.77.0.1:29501 refused the connection",
        {"MASTER_PORT": "29501"},
    ),
    "silent proxy": Cause(
        proxy_that("stays silent"),
        "sidecar.istio.io/inject: 'false'",
        "does not answer as a store",
        {},
    ),
    "proxy that closes": Cause(
        proxy_that("closes"), "sidecar.istio.io/inject: 'false'", f"10.77.0.1:{PORT}", {}
    ),
}


@pytest.fixture
def hosts() -> Iterator[list[Host]]:
    with made_hosts(2, names=("node0", "node1")) as made:
        yield made


def of_the_second(folder: Path) -> tuple[Finding, Verdict]:
    """Return the one finding of the report that the second host's rank wrote, and its verdict."""
    reports = [read_report(file.parent) for file in folder.glob("ddpcheck-*/report.json")]
    (own,) = [each for each in reports if any(f.ranks == (1,) for f in each.findings if cut(f))]
    (finding,) = own.findings
    return finding, own.verdict


def cut(finding: Finding) -> bool:
    return finding.id == "launch/cannot-meet"


@pytest.mark.parametrize("name", CAUSES)
def test_the_host_that_is_cut_off_is_told_why_and_what_to_do(
    name: str, hosts: list[Host], tmp_path: Path
) -> None:
    cause = CAUSES[name]
    with ExitStack() as stack:
        cause.make(hosts[0], stack)
        ended = run_ranks(
            *(tmp_path / "reports", hosts, "--deadline", str(DEADLINE_S)),
            env_per_host=[{}, cause.second],
        )
    assert ended.exit_codes == (4, 4), ended.stderr
    finding, verdict = of_the_second(tmp_path / "reports")
    assert (finding.severity, finding.ranks) == (Severity.ERROR, (1,))
    assert "rank 1 on node1" in finding.message
    assert cause.message in finding.message
    assert cause.fix in finding.fix
    assert verdict is Verdict.INCOMPLETE


def test_hosts_that_meet_are_told_nothing(hosts: list[Host], tmp_path: Path) -> None:
    ended = run_ranks(tmp_path / "reports", hosts, "--select", "launch")
    assert ended.exit_codes == (0, 0), ended.stderr
    assert ended.report.findings == []
