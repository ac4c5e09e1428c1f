from collections.abc import Iterable
from pathlib import Path

import pytest
from answers import always
from rdma_trees import LINK_LOCAL, USUAL, V1, V2, add_device

from ddpcheck.machine.infiniband import Port, all_ports, rdma_ports
from ddpcheck.machine.libraries import loaded
from ddpcheck.network import rdma as module
from ddpcheck.network.rdma import (
    Rdma,
    carriers,
    exactly,
    has_verbs,
    idle_names,
    is_meant,
    rdma,
    towards,
)
from ddpcheck.network.roce import FOR_IPV6, UNTOLD, GidRule

PORTS = [
    Port(f"mlx5_{device}", number, "ACTIVE", "LinkUp", "InfiniBand", usable=True)
    for device in (0, 1, 10)
    for number in (1, 2)
]


@pytest.mark.parametrize(
    ("setting", "meant"),
    [
        ("", "0:1 0:2 1:1 1:2 10:1 10:2"),
        ("mlx5", "0:1 0:2 1:1 1:2 10:1 10:2"),
        ("mlx5_1", "1:1 1:2 10:1 10:2"),
        ("=mlx5_1", "1:1 1:2"),
        ("=mlx5_0:1,mlx5_10", "0:1 10:1 10:2"),
        ("mlx5_1:2", "1:2 10:2"),
        ("^mlx5_1", "0:1 0:2"),
        ("^=mlx5_1", "0:1 0:2 10:1 10:2"),
        ("^=mlx5_1:1,mlx5_0", "1:2 10:1 10:2"),
        ("mlx4_0", ""),
        ("mlx4_0,=mlx5_0", ""),
        ("^mlx5", ""),
        ("^", ""),
    ],
)
def test_what_a_setting_means(setting: str, meant: str) -> None:
    told = [port.name.removeprefix("mlx5_") for port in PORTS if is_meant(setting, port)]
    assert told == meant.split()


@pytest.mark.parametrize(
    ("setting", "idle"),
    [
        ("", []),
        ("mlx5", []),
        ("mlx5_0,mlx5_2", ["mlx5_2"]),
        ("=mlx5", ["mlx5"]),
        ("mlx5_0:3", ["mlx5_0:3"]),
        ("^mlx4_0", []),
    ],
)
def test_names_that_mean_nothing(setting: str, idle: list[str]) -> None:
    assert idle_names(setting, PORTS) == idle


@pytest.fixture(autouse=True)
def _library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "can_be_loaded", always(True))


@pytest.mark.parametrize(
    ("environ", "index", "unused"),
    [
        ({}, None, ""),
        ({"NCCL_IB_GID_INDEX": "3"}, 3, ""),
        ({"NCCL_IB_GID_INDEX": "-1"}, None, ""),
        ({"NCCL_IB_GID_INDEX": ""}, None, ""),
        ({"NCCL_IB_DISABLE": "1"}, None, "NCCL_IB_DISABLE is 1"),
        ({"NCCL_IB_DISABLE": " 0x1"}, None, "NCCL_IB_DISABLE is  0x1"),
        ({"NCCL_IB_DISABLE": "0"}, None, ""),
        ({"NCCL_IB_DISABLE": "true"}, None, ""),
        ({"NCCL_NET": "Socket"}, None, "NCCL_NET is Socket"),
        ({"NCCL_NET": "AWS Libfabric"}, None, "NCCL_NET is AWS Libfabric"),
        ({"NCCL_NET": "ib"}, None, ""),
    ],
)
def test_settings(tmp_path: Path, environ: dict[str, str], index: int | None, unused: str) -> None:
    add_device(tmp_path, "mlx5_0", layer="Ethernet", gids={0: (LINK_LOCAL, V2)})
    told = rdma("node0", {**environ, "NCCL_IB_HCA": "=mlx5_0"}, tmp_path)
    assert (told.gid.index, told.unused) == (index, unused)
    assert [port.name for port in told.chosen()] == ["mlx5_0:1"]


def test_settings_in_a_file_are_told_with_it(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/nccl.conf").write_text("NCCL_IB_HCA=mlx5_0\nNCCL_IB_DISABLE=1\n")
    told = rdma("node0", {"NCCL_IB_DISABLE": "0"}, tmp_path)
    assert (told.hca, told.unused) == ("mlx5_0", "")
    assert told.origins == {"NCCL_IB_HCA": "/etc/nccl.conf"}


def test_addresses_are_read_only_when_asked_for(tmp_path: Path) -> None:
    add_device(tmp_path, "mlx5_0", layer="Ethernet", gids=USUAL)
    assert [port.gids for port in rdma("node0", {}, tmp_path).ports] == [()]
    (port,) = rdma("node0", {}, tmp_path, with_gids=True).ports
    assert [gid.index for gid in port.gids] == [*USUAL]


CARRIED = {
    "": {"mlx5_0", "mlx5_1", "efa0"},
    "NCCL_IB_DISABLE=1": {"efa0"},
    "NCCL_IB_DISABLE=true": {"mlx5_0", "mlx5_1", "efa0"},
    "NCCL_NET=socket": set[str](),
    "NCCL_NET=IB": {"mlx5_0", "mlx5_1"},
    "NCCL_NET=AWS Libfabric": {"mlx5_0", "mlx5_1", "efa0"},
    "NCCL_IB_HCA==mlx5_1": {"mlx5_1", "efa0"},
    "NCCL_IB_HCA=^mlx5": {"efa0"},
}


@pytest.mark.parametrize(("setting", "devices"), CARRIED.items())
def test_what_carries_the_data(tmp_path: Path, setting: str, devices: set[str]) -> None:
    add_device(tmp_path, "mlx5_0")
    add_device(tmp_path, "mlx5_1", layer="Ethernet", gids=USUAL)
    add_device(tmp_path, "mlx5_2", state="DOWN", link="Polling")
    add_device(tmp_path, "mlx5_3", shown=False)
    add_device(tmp_path, "efa0", layer="Unspecified")
    name, _, value = setting.partition("=")
    assert names(carriers({name: value}, all_ports(tmp_path))) == devices


def test_without_the_library_only_a_plugin_carries_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "can_be_loaded", always(False))
    add_device(tmp_path, "mlx5_0")
    add_device(tmp_path, "efa0", layer="Unspecified")
    assert names(carriers({}, all_ports(tmp_path))) == {"efa0"}
    assert not rdma("node0", {}, tmp_path).has_library
    assert rdma("node0", {"NCCL_IB_HCA": "^mlx5"}, tmp_path).has_library, "nothing needs it"


def test_a_library_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(module, "VERBS_LIBRARIES", ("libno-such-library.so",))
    libc = loaded("libc")[0]
    assert not has_verbs({})
    assert not has_verbs({"NCCL_IBVERBS_LIB": ""})
    assert has_verbs({"NCCL_IBVERBS_LIB": libc})


@pytest.mark.parametrize(
    ("layers", "settings", "is_fabric"),
    [
        (["InfiniBand"], {}, True),
        (["InfiniBand", "Ethernet"], {"NCCL_IB_HCA": "mlx5_1"}, False),
        (["Ethernet"], {}, False),
        (["Ethernet", "Ethernet"], {}, True),
        (["Ethernet", "bare"], {}, False),
        ([], {}, False),
    ],
)
def test_one_port_for_the_hosts_own_traffic_is_no_fabric(
    tmp_path: Path, layers: list[str], settings: dict[str, str], is_fabric: bool
) -> None:
    bare = {0: (LINK_LOCAL, V1), 1: (LINK_LOCAL, V2)}
    for number, layer in enumerate(layers):
        told = "Ethernet" if layer == "bare" else layer
        gids = bare if layer == "bare" else USUAL
        add_device(tmp_path, f"mlx5_{number}", layer=told, gids=gids)
    assert rdma("node0", settings, tmp_path, with_gids=True).is_fabric is is_fabric


def test_how_nccl_is_led_to_a_rule() -> None:
    told = GidRule(index=3, network="10.0.0.0/8")
    hosts = [
        Rdma("a", "a", (), gid=told, origins={"NCCL_IB_ADDR_RANGE": "/etc/nccl.conf"}),
        Rdma("b", "b", (), gid=FOR_IPV6),
    ]
    undo = "unset NCCL_IB_GID_INDEX"
    remove = "remove NCCL_IB_ADDR_RANGE from /etc/nccl.conf"
    export = "export NCCL_IB_ADDR_FAMILY=AF_INET6 on all ranks"
    assert towards(FOR_IPV6, hosts) == f"{undo}; {remove}; {export}"
    assert towards(UNTOLD, hosts) == f"{undo}, NCCL_IB_ADDR_FAMILY; {remove}"


def test_devices_are_named_exactly() -> None:
    setting = exactly(PORTS[:3])
    assert setting == "=mlx5_0,mlx5_1"
    assert names(port for port in PORTS if is_meant(setting, port)) == {"mlx5_0", "mlx5_1"}


def test_this_machine_can_be_read() -> None:
    assert rdma("localhost", {}).ports == rdma_ports()


def names(ports: Iterable[Port]) -> set[str]:
    return {port.device for port in ports}
