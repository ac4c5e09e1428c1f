from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from answers import always
from rdma_trees import add_device
from standings import stands

from ddpcheck.machine.interfaces import Interface, Kind
from ddpcheck.network import rdma
from ddpcheck.network import standing as module
from ddpcheck.network.names import OwnName
from ddpcheck.network.standing import (
    are_several_hosts,
    export,
    names,
    remembered,
    standing,
    way_out,
)

LO = Interface("lo", Kind.LOOPBACK, True, 65536, ("127.0.0.1/8",))
ETH0 = Interface("eth0", Kind.PHYSICAL, True, 1500, ("10.0.0.1/24", "fe80::1/64"))
ETH1 = Interface("eth1", Kind.PHYSICAL, True, 1500, ("10.1.0.1/24",))
DOCKER0 = Interface("docker0", Kind.BRIDGE, True, 1500, ("172.17.0.1/16",))
HOST = [LO, DOCKER0, ETH0, ETH1]


@pytest.fixture(autouse=True)
def _towards(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    ways = defaultdict(str, far="10.1.0.1", here="127.0.1.1", bridged="172.17.0.1")
    monkeypatch.setattr(module, "address_towards", ways.__getitem__)
    monkeypatch.setattr(module, "interfaces", always(HOST))
    monkeypatch.setattr(rdma, "can_be_loaded", always(True))
    remembered.cache_clear()
    yield
    remembered.cache_clear()


@pytest.mark.parametrize(
    ("master", "interface"),
    [("far", "eth1"), ("here", "eth0"), ("nowhere", "eth0"), ("", "eth0"), ("bridged", "docker0")],
)
def test_the_way_out_leads_to_the_master_or_else_anywhere(master: str, interface: str) -> None:
    found = way_out(master, HOST)
    assert found is not None
    assert found.interface == interface


def test_a_host_without_a_way_has_none() -> None:
    assert way_out("here", [LO]) is None


@pytest.mark.parametrize(("backend", "interface"), [("nccl", "eth1"), ("gloo", "eth0")])
def test_the_backend_decides_which_setting_counts(
    backend: str, interface: str, tmp_path: Path
) -> None:
    environ = {"NCCL_SOCKET_IFNAME": "=eth1", "GLOO_SOCKET_IFNAME": "eth0"}
    told = standing("host", backend, environ, tmp_path, lambda _: OwnName((), "127.0.0.1"))
    assert told is not None
    assert [each.interface for each in told.choice.chosen] == [interface]
    assert told.families == (4,)


@pytest.mark.parametrize(
    ("environ", "devices", "has"),
    [
        ({}, [], False),
        ({}, ["mlx5_0"], True),
        ({}, ["efa0"], True),
        ({"NCCL_IB_DISABLE": "1"}, ["mlx5_0"], False),
        ({"NCCL_NET": "Socket"}, ["mlx5_0"], False),
        ({"NCCL_IB_DISABLE": "true"}, ["mlx5_0"], True),
        ({"NCCL_IB_HCA": "^mlx5"}, ["mlx5_0"], False),
        ({"NCCL_NET": "AWS Libfabric"}, [], True),
    ],
)
def test_rdma(environ: dict[str, str], devices: list[str], has: bool, tmp_path: Path) -> None:
    for device in devices:
        add_device(tmp_path, device, layer="Unspecified" if device == "efa0" else "InfiniBand")
    told = standing("host", "nccl", environ, tmp_path, lambda _: OwnName((), ""))
    assert told is not None
    assert told.has_rdma is has


def test_devices_that_this_process_is_not_shown_carry_nothing(tmp_path: Path) -> None:
    add_device(tmp_path, "mlx5_0", shown=False)
    told = standing("host", "nccl", {}, tmp_path, lambda _: OwnName((), ""))
    assert told is not None
    assert not told.has_rdma


def test_without_its_library_nccl_uses_no_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rdma, "can_be_loaded", always(False))
    add_device(tmp_path, "mlx5_0")
    told = standing("host", "nccl", {}, tmp_path, lambda _: OwnName((), ""))
    assert told is not None
    assert not told.has_rdma


def test_the_host_is_asked_once_for_all_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def towards(host: str) -> str:
        asked.append(host)
        return "10.1.0.1"

    monkeypatch.setattr(module, "address_towards", towards)
    environ = {"MASTER_ADDR": "far"}
    told = [standing("host", "gloo", dict(environ)) for _ in range(7)]
    assert len({id(each) for each in told}) == 1
    assert asked == ["far"]
    for host, backend, master in (("other", "gloo", "far"), ("host", "nccl", "far")):
        standing(host, backend, {"MASTER_ADDR": master})
    standing("host", "gloo", {"MASTER_ADDR": "here"})
    assert asked == ["far", "far", "far", "here"]


def test_without_interfaces_there_is_no_standing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "interfaces", always([]))
    assert standing("host", "gloo", {}) is None


def test_this_machine_is_one_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert psutil.net_if_addrs()
    told = standing("localhost", "gloo", {"MASTER_ADDR": "localhost"})
    assert told is not None
    assert not are_several_hosts({0: told, 1: told})


def test_the_fix_names_the_interface_of_each_host() -> None:
    hosts = [
        stands("a"),
        stands("b"),
        stands("c", way=("ens3", "10.0.0.3")),
        stands("d", way=None),
        stands("e", way=("docker0", "172.17.0.1")),
    ]
    told = export(hosts, "NCCL_SOCKET_IFNAME", ["172.17.0.1"])
    assert "export NCCL_SOCKET_IFNAME=eth0 on a, b" in told
    assert "export NCCL_SOCKET_IFNAME=ens3 on c" in told
    assert "on d, e" in told
    assert "docker0" not in told


def test_many_names_are_told_in_few_words() -> None:
    told = names(f"host{number:03}" for number in range(500) for _ in range(8))
    assert "host000" in told
    assert "492 more" in told
