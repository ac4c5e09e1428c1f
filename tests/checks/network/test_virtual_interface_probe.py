from pathlib import Path

import pytest
from contexts import context_with
from hosts import made_hosts
from probes_on_hosts import found_by, said

from ddpcheck.check import Skip
from ddpcheck.checks.network.virtual_interface import probe

CHECK = "network/virtual-interface"


def test_gloo_has_no_such_fault() -> None:
    with pytest.raises(Skip, match="NCCL"):
        probe(context_with())


def test_real_hosts(tmp_path: Path) -> None:
    with made_hosts(2) as hosts:
        assert found_by(CHECK, hosts, tmp_path / "healthy", backend="nccl") == []
        # As docker does it: one end in the bridge, with no more than the kernel's own address.
        hosts[1].add_interface("docker0", "172.17.0.1/16")
        hosts[1].ip("link", "add", "veth42", "type", "veth", "peer", "name", "inside")
        for end in ("veth42", "inside"):
            hosts[1].ip("link", "set", end, "up")
        hosts[1].add_address("fe80::42/64", "veth42")
        found = found_by(CHECK, hosts, tmp_path / "veth", backend="nccl")
    assert said(found) == [(CHECK, "warning", (1,))]
    assert "veth42" in found[0].message
    assert "NCCL_SOCKET_IFNAME=eth0 on host1" in found[0].fix
