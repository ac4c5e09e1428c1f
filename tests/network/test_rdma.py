from pathlib import Path

import pytest
from rdma_trees import LINK_LOCAL, USUAL, V1, V2, add_device

from ddpcheck.machine.infiniband import Gid, Port
from ddpcheck.network.rdma import idle_names, is_meant, rdma, used_gid

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


@pytest.mark.parametrize(
    ("index", "nccl", "taken"),
    [
        (None, (2, 20, 5), 0),
        (None, (2, 21, 5), 3),
        (None, (2, 4), 0),
        (None, (3, 0, 0), 3),
        (1, (2, 28, 9), 1),
        (3, (2, 18, 1), 3),
        (5, (2, 28, 9), None),
    ],
)
def test_the_gid_that_is_used(index: int | None, nccl: tuple[int, ...], taken: int | None) -> None:
    gids = tuple(Gid(place, *gid) for place, gid in USUAL.items())
    used = used_gid(Port("mlx5_0", 1, "ACTIVE", "LinkUp", "Ethernet", True, gids), index, nccl)
    assert (used.index if used else None) == taken


def test_without_a_good_gid_the_first_one_is_used() -> None:
    port = Port("mlx5_0", 1, "ACTIVE", "LinkUp", "Ethernet", True, (Gid(0, LINK_LOCAL, V1),))
    assert used_gid(port, None, (2, 28)) == port.gids[0]


@pytest.mark.parametrize(
    ("environ", "index", "unused"),
    [
        ({}, None, ""),
        ({"NCCL_IB_GID_INDEX": "3"}, 3, ""),
        ({"NCCL_IB_GID_INDEX": "-1"}, None, ""),
        ({"NCCL_IB_GID_INDEX": ""}, None, ""),
        ({"NCCL_IB_DISABLE": "1"}, None, "NCCL_IB_DISABLE is 1"),
        ({"NCCL_IB_DISABLE": "0"}, None, ""),
        ({"NCCL_NET": "Socket"}, None, "NCCL_NET is Socket"),
        ({"NCCL_NET": "AWS Libfabric"}, None, "NCCL_NET is AWS Libfabric"),
        ({"NCCL_NET": "IB"}, None, ""),
    ],
)
def test_settings(tmp_path: Path, environ: dict[str, str], index: int | None, unused: str) -> None:
    add_device(tmp_path, "mlx5_0", layer="Ethernet", gids={0: (LINK_LOCAL, V2)})
    told = rdma("node0", {**environ, "NCCL_IB_HCA": "=mlx5_0"}, tmp_path)
    assert (told.gid_index, told.unused) == (index, unused)
    assert [port.name for port in told.chosen()] == ["mlx5_0:1"]
