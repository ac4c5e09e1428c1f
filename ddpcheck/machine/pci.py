"""The PCI Express path of a device: link widths, access control (ACS), and the IOMMU."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from ddpcheck.machine.files import bytes_of, text_of

ADDRESS = re.compile(r"[\da-f]{4,}:[\da-f]{2}:[\da-f]{2}\.\d")
# Linux shows this width where a device does not tell it.
UNKNOWN_WIDTH = 255
# Extended capabilities begin here; each says its own number and where the next one is.
# Source: PCI Express Base Specification, 7.6 and 7.7.8 (ACS); linux/pci_regs.h.
EXTENDED_OFFSET = 0x100
ACS_CAPABILITY = 0x000D
ACS_CONTROL_OFFSET = 0x06
REQUEST_REDIRECT = 0x0004
KEYWORDS_OFF = frozenset({"iommu=off", "intel_iommu=off", "amd_iommu=off"})


class Port(msgspec.Struct, frozen=True):
    """A device or bridge on the way to the processor; widths in lanes.

    ``redirects`` tells whether ACS sends requests between peers up to the processor; it is
    None where that cannot be read (without root, only 64 bytes of the registers can).
    """

    address: str
    width: int | None
    max_width: int | None
    redirects: bool | None


def path_of(address: str, root: Path = Path("/")) -> tuple[Port, ...]:
    """Return the device and the bridges above it, up to the root port; () when unknown."""
    device = root / "sys/bus/pci/devices" / address
    if not device.exists():
        return ()
    place = device.resolve()
    above = [part for part in (place, *place.parents) if ADDRESS.fullmatch(part.name)]
    return tuple(_port(each) for each in above)


def pci_address(bus_id: str) -> str:
    """Return a PCI address as Linux writes it, of NVML's '00000000:17:00.0' or '0000:17:00'."""
    domain, bus, device = bus_id.lower().split(":")
    return f"{int(domain, 16):04x}:{bus}:{device if '.' in device else f'{device}.0'}"


def detour_between(one: Sequence[Port], other: Sequence[Port], translated: bool) -> tuple[str, ...]:
    """Return the bridges between two devices that send their traffic up to the processor.

    Devices that meet in no bridge below it go there anyway: for them redirection matters only
    where an IOMMU then translates every access.
    """
    bridges = {port.address: port for port in (*one[1:], *other[1:])}
    common = {port.address for port in one[1:]} & {port.address for port in other[1:]}
    if not common and not translated:
        return ()
    return tuple(sorted(a for a, port in bridges.items() if port.redirects and a not in common))


def iommu_of(address: str, root: Path = Path("/")) -> str:
    """Return 'off', 'passthrough', 'translated' or 'unknown' for a device."""
    group = root / "sys/bus/pci/devices" / address / "iommu_group"
    units = root / "sys/class/iommu"
    if not group.exists() and not (units.exists() and any(units.iterdir())):
        return "off"
    kind = text_of(group / "type").strip()
    if kind:
        # Linux, Documentation/ABI/testing/sysfs-kernel-iommu_groups.
        known = {"identity": "passthrough", "DMA": "translated", "DMA-FQ": "translated"}
        return known.get(kind, "unknown")
    words = set(text_of(root / "proc/cmdline").split())
    if words & KEYWORDS_OFF:
        return "off"
    return "passthrough" if words & {"iommu=pt", "iommu.passthrough=1"} else "unknown"


def is_virtual_machine(root: Path = Path("/")) -> bool:
    """Return whether the processor says that a hypervisor runs this system."""
    flags = re.search(r"^flags\s*:(.*)$", text_of(root / "proc/cpuinfo"), re.MULTILINE)
    return flags is not None and "hypervisor" in flags[1].split()


def acs_control(registers: bytes) -> int | None:
    """Return the ACS control bits of a device's registers; 0 without ACS, None when cut off."""
    if len(registers) <= EXTENDED_OFFSET:
        return None
    for number, offset in _capabilities(registers):
        if number == ACS_CAPABILITY:
            start = offset + ACS_CONTROL_OFFSET
            return int.from_bytes(registers[start : start + 2], "little")
    return 0


def _capabilities(registers: bytes) -> Iterator[tuple[int, int]]:
    offset, seen = EXTENDED_OFFSET, set[int]()
    while offset >= EXTENDED_OFFSET and offset not in seen and offset + 4 <= len(registers):
        seen.add(offset)
        header = int.from_bytes(registers[offset : offset + 4], "little")
        yield header & 0xFFFF, offset
        offset = header >> 20 & 0xFFC


def _port(place: Path) -> Port:
    control = acs_control(bytes_of(place / "config"))
    return Port(
        address=place.name,
        width=_width(place / "current_link_width"),
        max_width=_width(place / "max_link_width"),
        redirects=None if control is None else bool(control & REQUEST_REDIRECT),
    )


def _width(path: Path) -> int | None:
    text = text_of(path).strip()
    lanes = int(text) if text.isdecimal() else 0
    return lanes if 0 < lanes < UNKNOWN_WIDTH else None
