from functools import partial
from pathlib import Path
from typing import Any

import pytest
from contexts import context_with
from rdma_trees import add_device

from ddpcheck.check import Skip
from ddpcheck.checks.network import infiniband_port_down
from ddpcheck.checks.network.infiniband_port_down import Facts, judge, probe, summarize
from ddpcheck.finding import Confidence, Severity
from ddpcheck.machine.infiniband import Port
from ddpcheck.network.rdma import Rdma, rdma


def host(number: int, states: str, hca: str = "", layer: str = "InfiniBand") -> Facts:
    """Return a host whose devices are in these states: A(ctive), D(own), I(nit), H(idden)."""
    told = {"A": ("ACTIVE", "LinkUp"), "D": ("DOWN", "Polling"), "I": ("INIT", "LinkUp")}
    ports = tuple(
        Port(f"mlx5_{device}", 1, *told.get(state, told["A"]), layer, usable=state != "H")
        for device, state in enumerate(states)
    )
    return Facts(Rdma(f"node{number}", f"p{number}", ports, hca))


def ranks(*hosts: str, hca: str = "", layer: str = "InfiniBand") -> dict[int, Facts]:
    """Return the facts of two ranks a host."""
    return {
        2 * number + local: host(number, states, hca, layer)
        for number, states in enumerate(hosts)
        for local in range(2)
    }


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks("AAAA", "AAAA"), id="all up"),
        pytest.param(ranks("AD", "AD", "AD"), id="second ports that nobody connected"),
        pytest.param(ranks("ADII"), id="one host"),
        pytest.param(ranks("AI", "AI"), id="ports of another network"),
        pytest.param(ranks("AA", "AD", hca="=mlx5_0"), id="a port that NCCL is not to use"),
        pytest.param(ranks("A", "AA"), id="hosts of two kinds"),
        pytest.param(ranks("I", "I", layer="Ethernet"), id="RoCE has no manager"),
        pytest.param(ranks("HH", "HH"), id="devices that are not shown"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


def test_a_port_that_is_down_on_one_host() -> None:
    (finding,) = judge(ranks("AAAA", "AADA", "AAAA"))
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.HIGH)
    assert finding.ranks == (2, 3)
    assert "mlx5_2:1 on node1 is DOWN (Polling)" in finding.message
    assert "node1" in finding.fix
    assert "subnet manager" not in finding.fix


def test_hosts_without_a_subnet_manager() -> None:
    (finding,) = judge(ranks("II", "II"))
    assert finding.ranks == (0, 1, 2, 3)
    assert "subnet manager" in finding.title
    assert "sminfo" in finding.fix


def test_a_port_in_init_that_is_active_elsewhere() -> None:
    (finding,) = judge(ranks("A", "I"))
    assert finding.ranks == (2, 3)
    assert "sminfo" in finding.fix


def test_many_hosts_are_one_finding() -> None:
    (finding,) = judge(ranks("A", *["D"] * 100))
    assert finding.ranks == tuple(range(2, 202))
    assert len(finding.message) < 500


def test_summary() -> None:
    assert summarize(ranks("AA", "AD")) == "3 of 4 ports active"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"backend": "gloo", "device": "cpu"}, "does not use NCCL"),
        ({"backend": "gloo"}, "does not use NCCL"),
        ({"environ": {"NCCL_IB_DISABLE": "1"}}, "NCCL_IB_DISABLE"),
        ({"environ": {"NCCL_IB_HCA": "mlx4"}}, "no InfiniBand"),
    ],
)
def test_skips(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], reason: str
) -> None:
    add_device(tmp_path, "mlx5_0")
    monkeypatch.setattr(infiniband_port_down, "rdma", partial(rdma, root=tmp_path))
    with pytest.raises(Skip, match=reason):
        probe(context_with(**{"backend": "nccl", "device": "cuda:0", **changes}))


def test_probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_device(tmp_path, "mlx5_0", state="DOWN", link="Disabled")
    monkeypatch.setattr(infiniband_port_down, "rdma", partial(rdma, root=tmp_path))
    told = probe(context_with(backend="nccl", device="cuda:0")).rdma
    assert [(port.name, port.state, port.link) for port in told.ports] == [
        ("mlx5_0:1", "DOWN", "Disabled")
    ]
