from pathlib import Path

import pytest
from rdma_trees import LINK_LOCAL, USUAL, V1, V2, add_device

from ddpcheck.machine.infiniband import Gid, Port, rdma_ports


def test_a_machine_without_devices(tmp_path: Path) -> None:
    assert rdma_ports(tmp_path) == ()


def test_ports_of_infiniband(tmp_path: Path) -> None:
    add_device(tmp_path, "mlx5_0")
    add_device(tmp_path, "mlx5_1", state="DOWN", link="Polling", ports=(1, 2), shown=False)
    assert rdma_ports(tmp_path) == (
        Port("mlx5_0", 1, "ACTIVE", "LinkUp", "InfiniBand", usable=True, gbps=25.0),
        Port("mlx5_1", 1, "DOWN", "Polling", "InfiniBand", usable=False, gbps=25.0),
        Port("mlx5_1", 2, "DOWN", "Polling", "InfiniBand", usable=False, gbps=25.0),
    )


def test_addresses_of_roce(tmp_path: Path) -> None:
    add_device(tmp_path, "mlx5_0", layer="Ethernet", gids=USUAL | {6: ("fd00::5", V2)})
    (port,) = rdma_ports(tmp_path, with_gids=True)
    assert port.gids == (
        Gid(0, LINK_LOCAL, V1),
        Gid(1, LINK_LOCAL, V2),
        Gid(2, "10.0.0.1", V1),
        Gid(3, "10.0.0.1", V2),
        Gid(6, "fd00::5", V2),
    )


def test_addresses_are_not_read_for_nobody(tmp_path: Path) -> None:
    add_device(tmp_path, "mlx5_0", layer="Ethernet", gids=USUAL)
    (port,) = rdma_ports(tmp_path)
    assert port.gids == ()


def test_another_link_layer_is_left_out(tmp_path: Path) -> None:
    add_device(tmp_path, "rdmap0s6", layer="Unspecified")
    assert rdma_ports(tmp_path) == ()


@pytest.mark.parametrize(
    ("state", "shown", "active"),
    [("ACTIVE", True, True), ("ACTIVE", False, False), ("INIT", True, False)],
)
def test_active(tmp_path: Path, state: str, shown: bool, active: bool) -> None:
    add_device(tmp_path, "mlx5_0", state=state, shown=shown)
    (port,) = rdma_ports(tmp_path)
    assert (port.name, port.is_active) == ("mlx5_0:1", active)


def test_this_machine_can_be_read() -> None:
    assert rdma_ports() == rdma_ports()
