from pathlib import Path

import pytest
from contexts import context_with
from hosts import Host, made_hosts, run_ranks
from probes_on_hosts import found_by, said

from ddpcheck.check import Meeting, Skip
from ddpcheck.checks.network.hostname_is_loopback import probe
from ddpcheck.finding import Finding, Severity

CHECK = "network/hostname-is-loopback"


JOINED = "collectives/no-process-group"


def test_ranks_that_cannot_meet_are_not_measured() -> None:
    with pytest.raises(Skip, match="cannot meet"):
        probe(context_with(meeting=Meeting("x", 0.0, "no")))


def loopback(host: Host) -> None:
    host.set_etc_hosts(f"127.0.0.1 localhost\n127.0.1.1 {host.name}\n")


def found_on(hosts: list[Host], folder: Path, **environ: str) -> list[Finding]:
    return found_by(CHECK, hosts, folder, environ=environ)


def test_real_hosts(tmp_path: Path) -> None:
    with made_hosts(2, network="192.168.77") as hosts:
        assert found_on(hosts, tmp_path / "healthy") == []
        loopback(hosts[1])
        found = found_on(hosts, tmp_path / "one")
        assert said(found) == [(CHECK, "error", (1,))]
        assert "GLOO_SOCKET_IFNAME=eth0 on host1" in found[0].fix
        assert found_on(hosts, tmp_path / "set", GLOO_SOCKET_IFNAME="eth0") == []
        loopback(hosts[0])
        found = found_on(hosts, tmp_path / "both")
        assert said(found) == [(CHECK, "error", (0, 1))]
        assert "GLOO_SOCKET_IFNAME=eth0 on host0, host1" in found[0].fix
        hosts[1].set_etc_hosts("")
        hosts[0].set_etc_hosts("192.168.77.1 host0\n")
        found = found_on(hosts, tmp_path / "unknown")
        assert said(found) == [(CHECK, "error", (1,))]
        assert "cannot resolve" in found[0].message
        assert "GLOO_SOCKET_IFNAME=eth0 on host1" in found[0].fix


def test_a_real_run_ends_before_gloo_would_hang(tmp_path: Path) -> None:
    with made_hosts(2, network="192.168.77") as hosts:
        loopback(hosts[1])
        ended = run_ranks(tmp_path / "reports", hosts, "--select", f"{CHECK},{JOINED}")
    assert ended.exit_codes == (1, 1), ended.stderr
    found = [each for each in ended.report.findings if each.id == CHECK]
    assert [(each.severity, each.ranks) for each in found] == [(Severity.ERROR, (1,))]
    assert "GLOO_SOCKET_IFNAME=eth0 on host1" in found[0].fix
    outcomes = {check.id: check.outcome for check in ended.report.checks}
    assert outcomes[JOINED] == "skip"


def test_a_real_run_passes_where_the_addresses_let_it(tmp_path: Path) -> None:
    with made_hosts(2, network="10.77.0") as hosts:
        loopback(hosts[1])
        ended = run_ranks(tmp_path / "reports", hosts, "--select", f"{CHECK},{JOINED}")
    assert ended.exit_codes == (0, 0), ended.stderr
    assert ended.found() == {CHECK: "warning"}
    assert {check.id: check.outcome for check in ended.report.checks}[JOINED] == "pass"
