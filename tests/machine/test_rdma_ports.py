from pathlib import Path

from ddpcheck.machine.rdma_ports import active_rdma_ports


def made(root: Path, states: dict[str, str], device_files: bool = True) -> Path:
    for port, state in states.items():
        device, _, number = port.partition(":")
        folder = root / "sys/class/infiniband" / device / "ports" / number
        folder.mkdir(parents=True)
        (folder / "state").write_text(f"{state}\n")
    if device_files:
        (root / "dev/infiniband").mkdir(parents=True)
        (root / "dev/infiniband/uverbs0").touch()
    return root


def test_a_machine_without(tmp_path: Path) -> None:
    assert active_rdma_ports(tmp_path) == []


def test_ports_that_are_up(tmp_path: Path) -> None:
    states = {"mlx5_0:1": "4: ACTIVE", "mlx5_1:1": "1: DOWN", "mlx5_2:1": "2: INIT"}
    assert active_rdma_ports(made(tmp_path, states)) == ["mlx5_0:1"]


def test_a_container_without_the_device_files_can_use_none(tmp_path: Path) -> None:
    assert active_rdma_ports(made(tmp_path, {"mlx5_0:1": "4: ACTIVE"}, device_files=False)) == []
