"""What links carry, from an H200 as its driver told, and from made-up trees of /sys."""

from pathlib import Path as FilePath

import msgspec
import pytest
from rdma_trees import add_device

from ddpcheck.machine.gpu import SWITCH, Gpu, Link, Peer
from ddpcheck.machine.infiniband import rdma_ports
from ddpcheck.machine.nccl_log import Log, Path, transport_of
from ddpcheck.machine.ways import Way, ways_from

CAPTURED = FilePath(__file__).parent / "captured" / "h200.json"
NEAR, FAR = Peer("GPU-2", 10, 0, 0), Peer("GPU-3", 40, 0, 1)


def h200(gbps: float | None = 26.562) -> Gpu:
    """Return the captured GPU; its links' speed is what nvidia-smi nvlink -s shows."""
    gpu = msgspec.json.decode(CAPTURED.read_bytes(), type=Gpu)
    links = tuple(msgspec.structs.replace(link, gbps=gbps) for link in gpu.links)
    return msgspec.structs.replace(gpu, links=links)


def log(words: str, *interfaces: str) -> Log:
    paths = (Path(0, 1, transport_of(words), words), Path(1, 0, transport_of(words), words))
    return Log(paths=paths, interfaces=interfaces)


def interface(root: FilePath, name: str, speed: str, *, physical: bool = True) -> None:
    place = root / "sys/class/net" / name
    (place / "device" if physical else place).mkdir(parents=True)
    (place / "speed").write_text(f"{speed}\n")
    (place / "type").write_text("1\n")


def only(ways: tuple[Way, ...] | None) -> Way:
    assert ways is not None
    assert len(ways) == 1
    return ways[0]


def pci_link(root: FilePath, address: str, rate: str, width: int) -> None:
    place = root / "sys/bus/pci/devices" / address
    place.mkdir(parents=True)
    (place / "max_link_speed").write_text(f"{rate} GT/s PCIe\n")
    (place / "max_link_width").write_text(f"{width}\n")


def virtual(root: FilePath) -> None:
    (root / "proc").mkdir()
    (root / "proc/cpuinfo").write_text("processor: 0\nflags\t\t: fpu vme hypervisor lahf_lm\n")


def test_all_links_to_a_switch_count() -> None:
    way = only(ways_from(0, log("P2P/CUMEM"), h200(), ()))
    assert (way.target, way.words) == (1, "18 NVLinks of 26.6 GB/s")
    assert way.gbps == pytest.approx(18 * 26.562)


def test_of_links_to_other_gpus_the_fewest_count() -> None:
    links = (Link(True, "0000:1:00.0", 0, 25.0), *(Link(True, "0000:2:00.0", 0, 25.0),) * 2)
    gpu = Gpu("GPU-1", links=(*links, Link(False, "", 0)), peers=(Peer("GPU-2", 10, 0, 0),))
    way = only(ways_from(0, log("P2P/CUMEM"), gpu, ()))
    assert way == Way(1, 25.0, "1 NVLink of 25 GB/s")


def test_pci_express_between_near_gpus(tmp_path: FilePath) -> None:
    pci_link(tmp_path, "0000:17:00.0", "32.0", 16)
    gpu = Gpu("GPU-1", pci="0000:17:00.0", peers=(msgspec.structs.replace(NEAR, nvlink=1),))
    way = only(ways_from(0, log("P2P/CUMEM"), gpu, (), tmp_path))
    assert (way.target, round(way.gbps)) == (1, 63)


def test_the_slowest_port_counts(tmp_path: FilePath) -> None:
    add_device(tmp_path, "mlx5_0")
    add_device(tmp_path, "mlx5_1")
    way = only(ways_from(0, log("NET/IB/GDRDMA"), None, rdma_ports(tmp_path), tmp_path))
    assert way == Way(1, 25.0, "mlx5_0:1, 200 Gbit/s")


def test_a_card_behind_a_narrow_link_is_as_fast_as_that(tmp_path: FilePath) -> None:
    add_device(tmp_path, "mlx5_0")
    pci_link(tmp_path, "0000:17:00.0", "8.0", 8)
    link = tmp_path / "sys/class/infiniband/mlx5_0/device"
    link.symlink_to(tmp_path / "sys/bus/pci/devices/0000:17:00.0")
    way = only(ways_from(0, log("NET/IB"), None, rdma_ports(tmp_path), tmp_path))
    assert (round(way.gbps, 2), way.words) == (7.88, "mlx5_0's PCI Express of 7.88 GB/s")


def test_a_gpu_behind_a_narrow_link_is_as_fast_as_that(tmp_path: FilePath) -> None:
    add_device(tmp_path, "mlx5_0")
    pci_link(tmp_path, "0000:17:00.0", "16.0", 8)
    gpu = Gpu("GPU-1", pci="0000:17:00.0")
    way = only(ways_from(0, log("NET/IB"), gpu, rdma_ports(tmp_path), tmp_path))
    assert way.words == "the GPU's PCI Express of 15.8 GB/s"


@pytest.mark.parametrize(("layer", "known"), [("Ethernet", False), ("InfiniBand", True)])
def test_a_virtual_machine_has_a_part_of_a_cards_speed(
    tmp_path: FilePath, layer: str, known: bool
) -> None:
    add_device(tmp_path, "mlx5_0", layer=layer)
    virtual(tmp_path)
    ways = ways_from(0, log("NET/IB"), None, rdma_ports(tmp_path), tmp_path)
    assert (ways is not None) == known


def test_a_virtual_machines_interface_says_nothing(tmp_path: FilePath) -> None:
    interface(tmp_path, "eth0", "10000")
    virtual(tmp_path)
    assert ways_from(0, log("NET/Socket", "eth0"), None, (), tmp_path) is None


def test_sockets_through_a_card(tmp_path: FilePath) -> None:
    interface(tmp_path, "eth0", "10000")
    way = only(ways_from(0, log("NET/Socket", "eth0"), None, (), tmp_path))
    assert way == Way(1, 1.25, "eth0, 10 Gbit/s")


@pytest.mark.parametrize(
    ("words", "gpu"),
    [
        pytest.param("P2P/CUMEM", h200(gbps=None), id="an old driver tells no speed"),
        pytest.param("P2P/CUMEM", None, id="no NVML"),
        pytest.param("P2P/CUMEM", Gpu("GPU-1", peers=(FAR,)), id="through a processor"),
        pytest.param("P2P/CUMEM", Gpu("GPU-1"), id="peers in other containers"),
        pytest.param("SHM/direct/direct", h200(), id="host memory"),
        pytest.param("NET/AWS Libfabric/0", h200(), id="a plug-in"),
        pytest.param("NET/IB", h200(), id="ports that are not shown"),
    ],
)
def test_what_is_not_told_is_not_guessed(words: str, gpu: Gpu | None) -> None:
    assert ways_from(0, log(words), gpu, ()) is None


@pytest.mark.parametrize(("speed", "physical"), [("-1", True), ("10000", False), ("100000", True)])
def test_a_speed_that_says_nothing(tmp_path: FilePath, speed: str, physical: bool) -> None:
    interface(tmp_path, "eth0", speed, physical=physical)
    assert ways_from(0, log("NET/Socket", "eth0"), None, (), tmp_path) is None


def test_one_unknown_way_makes_all_unknown() -> None:
    paths = (*log("P2P/CUMEM").paths, Path(0, 2, transport_of("SHM"), "SHM"))
    assert ways_from(0, Log(paths=paths), h200(), ()) is None


def test_a_rank_without_ways_of_its_own() -> None:
    assert ways_from(7, log("P2P/CUMEM"), h200(), ()) is None
    assert SWITCH in {link.remote for link in h200().links}
