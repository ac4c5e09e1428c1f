from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from contexts import context_with
from firewalls import CLOSES, HOLDS, block, sidecar
from hosts import made_hosts
from probes_on_hosts import found_by, judged, probed, said

from ddpcheck.check import Meeting, Skip
from ddpcheck.checks.network.unreachable_peer import probe
from ddpcheck.network.reach import Reached

CHECK = "network/unreachable-peer"


def kinds(facts: Mapping[int, Any]) -> dict[str, Reached]:
    return {
        f"{own.here.host}>{each.host}": each.kind for own in facts.values() for each in own.attempts
    }


@pytest.mark.parametrize("backend", ["gloo", "nccl"])
def test_healthy_hosts(backend: str, tmp_path: Path) -> None:
    with made_hosts(3) as hosts:
        facts = probed(CHECK, hosts, tmp_path, ranks_per_host=2, backend=backend)
    assert set(kinds(facts).values()) == {Reached.OPEN}
    assert len(kinds(facts)) == 6
    assert {own.here.host: own.here.address for own in facts.values()} == {
        host.name: host.address for host in hosts
    }
    assert judged(CHECK, facts) == []


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        (["DROP"], Reached.FILTERED),
        (["REJECT"], Reached.REFUSED),
        (["REJECT", "--reject-with", "tcp-reset"], Reached.REFUSED),
        (["REJECT", "--reject-with", "icmp-admin-prohibited"], Reached.NO_ROUTE),
        (["REJECT", "--reject-with", "icmp-host-prohibited"], Reached.NO_ROUTE),
    ],
)
def test_a_firewall_on_one_host(tmp_path: Path, target: Sequence[str], kind: Reached) -> None:
    with made_hosts(3) as hosts:
        block(hosts[1], *target)
        facts = probed(CHECK, hosts, tmp_path)
    assert {pair for pair, each in kinds(facts).items() if each is kind} == {
        "host0>host1",
        "host2>host1",
    }
    found = judged(CHECK, facts)
    assert said(found) == [(CHECK, "error", (1,))]
    assert "iptables" in found[0].fix
    assert "security group of host1" in found[0].fix


@pytest.mark.parametrize(
    ("closed", "backend", "severity"),
    [
        pytest.param(0, "gloo", "error", id="gloo calls the lower address"),
        pytest.param(1, "gloo", "warning", id="gloo never calls the higher one"),
        pytest.param(1, "nccl", "error", id="NCCL calls both"),
    ],
)
def test_of_two_hosts_the_backend_decides_which_way_is_needed(
    closed: int, backend: str, severity: str, tmp_path: Path
) -> None:
    with made_hosts(2) as hosts:
        block(hosts[closed], "DROP")
        (finding,) = found_by(CHECK, hosts, tmp_path, backend=backend)
    assert said([finding]) == [(CHECK, severity, (closed,))]
    assert "no answer" in finding.message
    assert f"host{closed}" in finding.fix


def test_a_host_that_lets_nothing_out(tmp_path: Path) -> None:
    with made_hosts(3) as hosts:
        block(hosts[2], "DROP", chain="OUTPUT")
        found = found_by(CHECK, hosts, tmp_path)
    assert said(found) == [(CHECK, "error", (2,))]
    assert "security group of host2" in found[0].fix


def test_no_route(tmp_path: Path) -> None:
    with made_hosts(3) as hosts:
        hosts[0].ip("route", "add", "unreachable", f"{hosts[2].address}/32")
        facts = probed(CHECK, hosts, tmp_path)
    assert kinds(facts)["host0>host2"] is Reached.NO_ROUTE
    found = judged(CHECK, facts)
    assert said(found) == [(CHECK, "error", (0, 2))]
    assert "host0 to host2 (10.77.0.3): no route" in found[0].message
    assert "ip route get" in found[0].fix


@pytest.mark.parametrize(
    ("does", "kind"),
    [
        pytest.param(CLOSES, Reached.CLOSED, id="closes"),
        pytest.param(HOLDS, Reached.SILENT, id="holds"),
    ],
)
def test_a_proxy_that_takes_what_is_for_the_listener(
    does: str, kind: Reached, tmp_path: Path
) -> None:
    with made_hosts(2) as hosts, sidecar(hosts[0], does):
        facts = probed(CHECK, hosts, tmp_path)
    assert kinds(facts)["host1>host0"] is kind
    found = judged(CHECK, facts)
    assert said(found) == [(CHECK, "error", (0,))]
    assert 'host0: in Kubernetes annotate the pods with sidecar.istio.io/inject: "false"' in (
        found[0].fix
    )


@pytest.mark.parametrize("backend", ["gloo", "nccl"])
@pytest.mark.parametrize("chosen", ["eth0", "eth1"])
def test_an_interface_that_does_not_lead_to_the_others(
    chosen: str, backend: str, tmp_path: Path
) -> None:
    name = f"{backend.upper()}_SOCKET_IFNAME"
    with made_hosts(2) as hosts:
        for number, host in enumerate(hosts, start=1):
            host.add_interface("eth1", f"10.99.0.{number}/24", "loose")
        environ = {name: chosen}
        found = found_by(CHECK, hosts, tmp_path, environ=environ, backend=backend)
    assert said(found) == ([(CHECK, "error", (0, 1))] if chosen == "eth1" else [])
    for each in found:
        assert "10.99.0.2" in each.message
        assert "host1 is reached by eth0" in each.message
        assert each.fix == f"export {name}=eth0 on host0, host1"


def test_one_host_with_such_an_interface_is_named_alone(tmp_path: Path) -> None:
    environs = [{"GLOO_SOCKET_IFNAME": "eth0"}, {"GLOO_SOCKET_IFNAME": "eth1"}]
    with made_hosts(2, network="10.177.0") as hosts:
        hosts[1].add_interface("eth1", "10.99.0.2/24", "loose")
        found = found_by(CHECK, hosts, tmp_path, env_per_host=environs)
    assert said(found) == [(CHECK, "error", (1,))]
    assert found[0].fix == "export GLOO_SOCKET_IFNAME=eth0 on host1"


def test_a_firewall_on_a_network_that_was_chosen_well_is_still_a_firewall(tmp_path: Path) -> None:
    environ = {"GLOO_SOCKET_IFNAME": "eth1"}
    with made_hosts(2) as hosts:
        for number, host in enumerate(hosts, start=1):
            host.add_interface("eth1", f"10.99.0.{number}/24", "veth")
        assert found_by(CHECK, hosts, tmp_path / "open", environ=environ) == []
        block(hosts[0], "REJECT")
        found = found_by(CHECK, hosts, tmp_path / "closed", environ=environ)
    assert said(found) == [(CHECK, "error", (0,))]
    assert "iptables" in found[0].fix
    assert "SOCKET_IFNAME" not in found[0].fix


def test_a_second_interface_is_used_by_nccl_where_every_host_has_one(tmp_path: Path) -> None:
    with made_hosts(2) as hosts:
        # As docker does it for a network of its own: containers hang on it, so that it runs.
        hosts[1].add_interface("br-9f3c", "172.18.0.1/16")
        one = found_by(CHECK, hosts, tmp_path / "one", backend="nccl")
        hosts[0].add_interface("eth1", "10.99.0.1/24", "loose")
        both = found_by(CHECK, hosts, tmp_path / "both", backend="nccl")
        gloo = found_by(CHECK, hosts, tmp_path / "gloo")
    assert gloo == []
    assert said(one) == [(CHECK, "warning", (1,))]
    assert "host0 to host1 (172.18.0.1): no route" in one[0].message
    assert one[0].fix == "export NCCL_SOCKET_IFNAME=eth0 on host1"
    assert said(both) == [(CHECK, "error", (0, 1))]
    assert both[0].fix == "export NCCL_SOCKET_IFNAME=eth0 on host0, host1"


def test_two_interfaces_that_lead_to_the_others(tmp_path: Path) -> None:
    with made_hosts(2) as hosts:
        for number, host in enumerate(hosts, start=1):
            host.add_interface("eth1", f"10.99.0.{number}/24", "veth")
        facts = probed(CHECK, hosts, tmp_path, backend="nccl")
    tried = {each.address for own in facts.values() for each in own.attempts}
    assert tried == {"10.77.0.1", "10.77.0.2", "10.99.0.1", "10.99.0.2"}
    assert judged(CHECK, facts) == []


@pytest.mark.parametrize("setting", ["docker0", "lo"])
def test_what_another_check_says_is_left_to_it(setting: str, tmp_path: Path) -> None:
    with made_hosts(2) as hosts:
        for host in hosts:
            host.add_interface("docker0", "172.17.0.1/16")
        environ = {"GLOO_SOCKET_IFNAME": setting}
        assert found_by(CHECK, hosts, tmp_path / "own", environ=environ) == []
        (other,) = found_by("network/wrong-interface", hosts, tmp_path / "other", environ=environ)
    assert other.severity == "error"


def test_ranks_of_one_host_are_skipped(tmp_path: Path) -> None:
    with made_hosts(1) as hosts:
        told = probed(CHECK, hosts, tmp_path, ranks_per_host=3)
    assert set(told.values()) == {"all ranks are on one host"}


def test_a_rank_that_never_comes_keeps_nobody(tmp_path: Path) -> None:
    with made_hosts(3) as hosts:
        facts = probed(CHECK, hosts, tmp_path, absent=1)
    assert set(kinds(facts)) == {"host0>host1", "host1>host0"}
    assert judged(CHECK, facts) == []


def test_alone_is_skipped() -> None:
    with pytest.raises(Skip, match="no other rank"):
        probe(context_with())


def test_ranks_that_cannot_meet_are_skipped() -> None:
    with pytest.raises(Skip, match="cannot meet"):
        probe(context_with(meeting=Meeting("node0:29500", 1.0, "refused"), world_size=2))
