from pathlib import Path

import pytest
from answers import always
from contexts import context_with
from hosts import INTERFACE, made_hosts
from probes_on_hosts import probed

from ddpcheck.check import Skip
from ddpcheck.checks.network import mtu_mismatch
from ddpcheck.checks.network.mtu_mismatch import judge, probe


def test_hosts_with_another_mtu(tmp_path: Path) -> None:
    with made_hosts(3) as hosts:
        hosts[1].ip("link", "set", "dev", INTERFACE, "mtu", "1400")
        facts = probed("network/mtu-mismatch", hosts, tmp_path)
    (finding,) = judge(facts)
    assert finding.ranks == (1,)
    assert f"dev {INTERFACE} mtu 1500 on {hosts[1].name}" in finding.fix


def test_a_host_that_nothing_leads_out_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mtu_mismatch, "own_wire", always(None))
    with pytest.raises(Skip, match="no interface"):
        probe(context_with())
