from functools import partial
from pathlib import Path
from typing import Any

import pytest
from answers import always
from contexts import context_with
from rdma_trees import USUAL, add_device

from ddpcheck.check import Skip
from ddpcheck.checks.network import missing_hca
from ddpcheck.checks.network.missing_hca import Facts, judge, probe, summarize
from ddpcheck.finding import Confidence, Severity
from ddpcheck.machine.infiniband import Port
from ddpcheck.network import rdma as module
from ddpcheck.network.rdma import Rdma, rdma


def host(
    number: int,
    count: int,
    hca: str = "",
    *,
    usable: bool = True,
    is_fabric: bool = True,
    **told: Any,
) -> Facts:
    ports = tuple(
        Port(f"mlx5_{device}", 1, "ACTIVE", "LinkUp", "InfiniBand", usable)
        for device in range(count)
    )
    return Facts(Rdma(f"node{number}", f"p{number}", ports, hca, **told), is_fabric)


def ranks(*hosts: Facts) -> dict[int, Facts]:
    """Return the facts of two ranks a host."""
    return {2 * n + local: own for n, own in enumerate(hosts) for local in range(2)}


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks(host(0, 8), host(1, 8)), id="all have all"),
        pytest.param(ranks(host(0, 0), host(1, 0)), id="nobody has any"),
        pytest.param(ranks(host(0, 0, "mlx5"), host(1, 0, "mlx5")), id="set, and no device at all"),
        pytest.param(ranks(host(0, 8), host(1, 4)), id="hosts of two kinds"),
        pytest.param(ranks(host(0, 8, "=mlx5_9")), id="one host needs none"),
        pytest.param(ranks(host(0, 8, has_library=False)), id="one host needs no library"),
        pytest.param(ranks(host(0, 2, "^mlx4"), host(1, 2, "^mlx4")), id="nothing left out"),
        pytest.param(
            ranks(host(0, 2, usable=False), host(1, 2, usable=False)), id="containers without any"
        ),
        pytest.param(
            ranks(host(0, 2, "mlx5_0:1,mlx5_1"), host(1, 2, "mlx5_0:1,mlx5_1")), id="well named"
        ),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


def test_names_of_other_devices() -> None:
    (finding,) = judge(ranks(host(0, 2, "mlx4_0"), host(1, 2, "mlx4_0")))
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.HIGH)
    assert finding.ranks == (0, 1, 2, 3)
    assert "NCCL_IB_HCA=mlx4_0 on node0: no device is called mlx4_0, so NCCL uses TCP sockets" in (
        finding.message
    )
    assert "mlx5_0, mlx5_1" in finding.fix


def test_one_name_of_several() -> None:
    (finding,) = judge(ranks(host(0, 2, "=mlx5_0,mlx5_2"), host(1, 3, "=mlx5_0,mlx5_2")))
    assert finding.ranks == (0, 1)
    assert "no device is called mlx5_2" in finding.message
    assert "sockets" not in finding.message


def test_a_container_that_is_shown_no_device() -> None:
    (finding,) = judge(ranks(host(0, 2), host(1, 2, usable=False)))
    assert finding.severity is Severity.WARNING
    assert finding.ranks == (2, 3)
    assert "node1" in finding.message
    assert "/dev/infiniband" in finding.fix


def test_a_host_without_a_device() -> None:
    (finding,) = judge(ranks(host(0, 2), host(1, 0), host(2, 2)))
    assert finding.ranks == (2, 3)
    assert "node1" in finding.message
    assert "lspci" in finding.fix


def test_an_image_without_libibverbs() -> None:
    (finding,) = judge(ranks(*(host(n, 8, has_library=False) for n in range(2))))
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.HIGH)
    assert finding.ranks == (0, 1, 2, 3)
    words = ["no libibverbs", "mlx5_0, mlx5_1", "node0, node1", "TCP sockets"]
    assert [word for word in words if word not in finding.message] == []
    assert "libibverbs1" in finding.fix


def test_one_host_without_libibverbs() -> None:
    (finding,) = judge(ranks(host(0, 8), host(1, 8, has_library=False), host(2, 8)))
    assert finding.ranks == (2, 3)
    assert "on node1" in finding.fix


def test_a_card_for_the_hosts_own_traffic_needs_no_library() -> None:
    hosts = [host(n, 1, has_library=False, is_fabric=False) for n in range(2)]
    (finding,) = judge(ranks(*hosts))
    assert finding.severity is Severity.INFO


def test_a_name_in_a_file_is_to_be_corrected_there() -> None:
    told: dict[str, Any] = {"origins": {"NCCL_IB_HCA": "/etc/nccl.conf"}}
    (finding,) = judge(ranks(*(host(n, 2, "mlx4_0", **told) for n in range(2))))
    assert "or remove NCCL_IB_HCA from /etc/nccl.conf: mlx5_0, mlx5_1 on node0" in finding.fix
    (finding,) = judge(ranks(*(host(n, 2, "mlx4_0") for n in range(2))))
    assert "or unset NCCL_IB_HCA: mlx5_0, mlx5_1 on node0" in finding.fix


def test_many_hosts_are_one_finding() -> None:
    (finding,) = judge(ranks(host(0, 2), *(host(n, 0) for n in range(1, 100))))
    assert finding.ranks == tuple(range(2, 200))
    assert len(finding.message) < 500


def test_summary() -> None:
    assert summarize(ranks(host(0, 8), host(1, 8))) == "8 devices a host"
    assert summarize(ranks(host(0, 8), host(1, 0))) == "0 or 8 devices a host"


def test_probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_device(tmp_path, "mlx5_0", shown=False)
    monkeypatch.setattr(missing_hca, "rdma", partial(rdma, root=tmp_path))
    nccl = context_with(backend="nccl", device="cuda:0", environ={"NCCL_IB_HCA": "=mlx5_1"})
    told = probe(nccl).rdma
    assert (told.hca, [port.usable for port in told.ports]) == ("=mlx5_1", [False])
    with pytest.raises(Skip, match="does not use NCCL"):
        probe(context_with())
    with pytest.raises(Skip, match="NCCL_NET is Socket"):
        probe(context_with(backend="nccl", device="cuda:0", environ={"NCCL_NET": "Socket"}))


@pytest.mark.parametrize(
    ("layers", "has_library", "is_fabric"),
    [
        (["InfiniBand"], False, True),
        (["InfiniBand"], True, True),
        (["Ethernet"], False, False),
        (["Ethernet"], True, True),
        (["Ethernet", "Ethernet"], False, True),
    ],
)
def test_probe_looks_for_the_library(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    layers: list[str],
    has_library: bool,
    is_fabric: bool,
) -> None:
    for number, layer in enumerate(layers):
        add_device(tmp_path, f"mlx5_{number}", layer=layer, gids=USUAL)
    monkeypatch.setattr(missing_hca, "rdma", partial(rdma, root=tmp_path))
    monkeypatch.setattr(module, "can_be_loaded", always(has_library))
    told = probe(context_with(backend="nccl", device="cuda:0"))
    assert (told.rdma.has_library, told.is_fabric) == (has_library, is_fabric)
    assert [port.gids for port in told.rdma.ports] == [()] * len(layers)
    devices = len(layers) if has_library else 0
    assert summarize({0: told}) == f"{devices} devices a host"
