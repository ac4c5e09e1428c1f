from pathlib import Path

import pytest
from contexts import context_with
from hosts import made_hosts
from probes_on_hosts import found_by, said

from ddpcheck.check import Meeting, Skip
from ddpcheck.checks.network.wrong_interface import probe
from ddpcheck.finding import Severity

CHECK = "network/wrong-interface"


def test_ranks_that_cannot_meet_are_not_measured() -> None:
    with pytest.raises(Skip, match="cannot meet"):
        probe(context_with(meeting=Meeting("x", 0.0, "no")))


@pytest.mark.parametrize(
    ("backend", "setting", "severity", "word"),
    [
        ("gloo", "", None, ""),
        ("gloo", "eth0", None, ""),
        ("gloo", "lo", Severity.ERROR, "127.0.0.1"),
        ("gloo", "docker0", Severity.ERROR, "172.17.0.1"),
        ("gloo", "eth9", Severity.ERROR, "eth9"),
        ("nccl", "", None, ""),
        ("nccl", "^docker,lo", None, ""),
        ("nccl", "=eth0", None, ""),
        ("nccl", "^docker0", Severity.ERROR, "127.0.0.1"),
        ("nccl", "lo", Severity.ERROR, "127.0.0.1"),
        ("nccl", "docker0", Severity.ERROR, "172.17.0.1"),
        ("nccl", "tun", Severity.WARNING, "carrier"),
        ("nccl", "ens", Severity.ERROR, "ens"),
    ],
)
def test_real_hosts(
    backend: str,
    setting: str,
    severity: Severity | None,
    word: str,
    tmp_path: Path,
) -> None:
    environ = {f"{backend.upper()}_SOCKET_IFNAME": setting} if setting else {}
    with made_hosts(2) as hosts:
        for host in hosts:
            host.add_interface("docker0", "172.17.0.1/16")
            host.add_interface("tun0", "10.88.0.1/24", "tun")
        found = found_by(CHECK, hosts, tmp_path, environ=environ, backend=backend)
    assert said(found) == [(CHECK, severity, (0, 1))] * bool(severity)
    for each in found:
        assert word in each.message
        assert f"{backend.upper()}_SOCKET_IFNAME=eth0 on host0, host1" in each.fix
