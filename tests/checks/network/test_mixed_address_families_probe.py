from pathlib import Path

import pytest
from contexts import context_with
from hosts import made_hosts
from probes_on_hosts import found_by, said

from ddpcheck.check import Meeting, Skip
from ddpcheck.checks.network.mixed_address_families import probe

CHECK = "network/mixed-address-families"


def test_ranks_that_cannot_meet_are_not_measured() -> None:
    with pytest.raises(Skip, match="cannot meet"):
        probe(context_with(meeting=Meeting("x", 0.0, "no")))


def test_real_hosts(tmp_path: Path) -> None:
    with made_hosts(2) as hosts:
        hosts[0].add_address("fd77::1/64")
        hosts[1].add_address("fd77::2/64")
        assert found_by(CHECK, hosts, tmp_path / "same") == []
        hosts[1].set_etc_hosts("fd77::2 host1\n")
        found = found_by(CHECK, hosts, tmp_path / "mixed")
        assert found_by(CHECK, hosts, tmp_path / "nccl", backend="nccl") == []
    assert said(found) == [(CHECK, "error", (0,))]
    assert "fd77::2" in found[0].message
    assert "export GLOO_SOCKET_IFNAME=eth0 on host0, host1" in found[0].fix
