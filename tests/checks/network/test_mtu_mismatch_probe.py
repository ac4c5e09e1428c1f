from pathlib import Path

import pytest
from answers import always
from contexts import context_with
from hosts import INTERFACE, made_hosts
from probes_on_hosts import found_by, said

from ddpcheck.check import Skip
from ddpcheck.checks.network import mtu_mismatch
from ddpcheck.checks.network.mtu_mismatch import probe

CHECK = "network/mtu-mismatch"


def test_hosts_with_another_mtu(tmp_path: Path) -> None:
    with made_hosts(3) as hosts:
        assert found_by(CHECK, hosts, tmp_path / "healthy") == []
        hosts[1].ip("link", "set", "dev", INTERFACE, "mtu", "1400")
        found = found_by(CHECK, hosts, tmp_path / "smaller")
        for host in hosts:
            host.ip("link", "set", "dev", INTERFACE, "mtu", "1400")
        assert found_by(CHECK, hosts, tmp_path / "all smaller") == []
    assert said(found) == [(CHECK, "warning", (1,))]
    assert found[0].fix.endswith(f"ip link set dev {INTERFACE} mtu 1500 on host1")


def test_a_host_that_nothing_leads_out_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mtu_mismatch, "own_wire", always(None))
    with pytest.raises(Skip, match="no interface"):
        probe(context_with())
