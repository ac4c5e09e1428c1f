"""The way from a GPU to its processor, in a tree as Linux lays it out."""

from pathlib import Path

import pytest
from pci_trees import captured, device, write

from ddpcheck.machine.pci import (
    Port,
    acs_control,
    detour_between,
    iommu_of,
    is_virtual_machine,
    path_of,
    pci_address,
)

ROOT_PORT = "0000:00:01.1"
UPSTREAM = "0000:40:00.0"
DOWNSTREAM = "0000:41:01.0"
GPU = "0000:42:00.0"
PLACE = f"sys/devices/pci0000:00/{ROOT_PORT}/{UPSTREAM}/{DOWNSTREAM}/{GPU}"
# ACSCtl: SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-
REDIRECTING = 0x1D


def registers(acs: int | None) -> bytes:
    """Return what Linux shows to root: error reporting at 0x100, then maybe ACS at 0x2a0."""
    made = bytearray(4096)
    made[0x100:0x104] = (0x2A0_1_0001 if acs is not None else 0x0001_0001).to_bytes(4, "little")
    if acs is not None:
        made[0x2A0:0x2A4] = (0x0001_000D).to_bytes(4, "little")
        made[0x2A6:0x2A8] = acs.to_bytes(2, "little")
    return bytes(made)


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """Return a root where a GPU with 8 lanes is behind a switch that redirects."""
    device(tmp_path, PLACE, registers(None), "8\n")
    device(tmp_path, str(Path(PLACE).parent), registers(REDIRECTING))
    device(tmp_path, str(Path(PLACE).parents[1]), registers(None), "255\n")
    device(tmp_path, str(Path(PLACE).parents[2]), registers(REDIRECTING)[:64])
    return tmp_path


def test_the_path_leads_up_to_the_root_port(host: Path) -> None:
    assert path_of(GPU, host) == (
        Port(GPU, 8, 16, False),
        Port(DOWNSTREAM, 16, 16, True),
        Port(UPSTREAM, None, 16, False),
        Port(ROOT_PORT, 16, 16, None),
    )


def test_a_device_that_is_not_there_has_no_path(tmp_path: Path) -> None:
    assert path_of(GPU, tmp_path) == ()


def test_a_device_without_attributes(tmp_path: Path) -> None:
    (tmp_path / "sys/bus/pci/devices" / GPU).mkdir(parents=True)
    assert path_of(GPU, tmp_path) == (Port(GPU, None, None, None),)


@pytest.mark.parametrize(
    ("config", "control"),
    [
        (registers(REDIRECTING), REDIRECTING),
        (registers(0), 0),
        (registers(None), 0),
        (registers(REDIRECTING)[:64], None),
        (registers(REDIRECTING)[:256], None),
        (b"", None),
        # A device that fell off the bus answers with ones: no capability is endless.
        (b"\xff" * 4096, 0),
    ],
)
def test_access_control(config: bytes, control: int | None) -> None:
    assert acs_control(config) == control


@pytest.mark.parametrize(
    ("name", "control"), [("root_port_acs_on", 0x1F), ("root_port_acs_off", 0)]
)
def test_real_root_ports_are_read_as_lspci_reads_them(name: str, control: int) -> None:
    assert acs_control(captured(name)) == control


@pytest.mark.parametrize(
    ("group", "unit", "cmdline", "kind"),
    [
        (None, False, "", "off"),
        ("identity\n", True, "", "passthrough"),
        ("DMA\n", True, "iommu=pt", "translated"),
        ("DMA-FQ\n", True, "", "translated"),
        ("blocked\n", True, "", "unknown"),
        (None, True, "quiet iommu=pt", "passthrough"),
        (None, True, "amd_iommu=off", "off"),
        (None, True, "quiet", "unknown"),
        ("", True, "quiet", "unknown"),
    ],
)
def test_iommu(tmp_path: Path, group: str | None, unit: bool, cmdline: str, kind: str) -> None:
    write(tmp_path, "proc/cmdline", cmdline)
    if group is not None:
        write(tmp_path, f"sys/bus/pci/devices/{GPU}/iommu_group/type", group)
    if unit:
        (tmp_path / "sys/class/iommu/dmar0").mkdir(parents=True)
    assert iommu_of(GPU, tmp_path) == kind


@pytest.mark.parametrize(
    ("flags", "virtual"), [("fpu hypervisor sse", True), ("fpu sse", False), ("", False)]
)
def test_virtual_machine(tmp_path: Path, flags: str, virtual: bool) -> None:
    write(tmp_path, "proc/cpuinfo", f"processor\t: 0\nflags\t\t: {flags}\n")
    assert is_virtual_machine(tmp_path) is virtual


def path(*bridges: str, redirects: tuple[str, ...] = ()) -> tuple[Port, ...]:
    names = (f"gpu under {bridges[0]}", *bridges)
    return tuple(Port(name, 16, 16, name in redirects) for name in names)


@pytest.mark.parametrize(
    ("one", "other", "translated", "bridges"),
    [
        pytest.param(
            path("d1", "up", "root", redirects=("d1", "root")),
            path("d2", "up", "root", redirects=("d2", "root")),
            False,
            ("d1", "d2"),
            id="one switch",
        ),
        pytest.param(
            path("d1", "up", "root", redirects=("root",)),
            path("d2", "up", "root", redirects=("root",)),
            True,
            (),
            id="above the switch it does not matter",
        ),
        pytest.param(
            path("root1", redirects=("root1",)), path("root2"), True, ("root1",), id="translated"
        ),
        pytest.param(
            path("root1", redirects=("root1",)), path("root2"), False, (), id="passed through"
        ),
        pytest.param((), (), True, (), id="unknown"),
    ],
)
def test_detours(
    one: tuple[Port, ...], other: tuple[Port, ...], translated: bool, bridges: tuple[str, ...]
) -> None:
    assert detour_between(one, other, translated) == bridges


@pytest.mark.parametrize(
    ("bus_id", "address"),
    [
        ("00000000:17:00.0", "0000:17:00.0"),
        ("00000001:AB:00.0", "0001:ab:00.0"),
        ("0000:17:00", "0000:17:00.0"),
        ("00010000:00:00.0", "10000:00:00.0"),
    ],
)
def test_addresses_are_written_as_linux_does(bus_id: str, address: str) -> None:
    assert pci_address(bus_id) == address
