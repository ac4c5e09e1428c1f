"""The InfiniBand and RoCE ports of this machine, as /sys tells of them.

Layout: Linux, Documentation/ABI/stable/sysfs-class-infiniband and testing/sysfs-class-infiniband.
"""

import ipaddress
import re
from pathlib import Path

import msgspec

from ddpcheck.machine.files import names_in, text_of

DEVICES = Path("sys/class/infiniband")
VERBS = Path("sys/class/infiniband_verbs")
NODES = Path("dev/infiniband")
ETHERNET, INFINIBAND = "Ethernet", "InfiniBand"
NO_GID = ipaddress.IPv6Address(0)


class Gid(msgspec.Struct, frozen=True):
    """An address of a RoCE port, as an IPv6 address or "10.0.0.1"; ``kind`` is "RoCE v2", say."""

    index: int
    address: str
    kind: str


class Port(msgspec.Struct, frozen=True):
    """A port: its state ("ACTIVE") and its link's ("LinkUp"), its link layer, its RoCE addresses.

    ``usable`` tells whether this process is shown the device's node: /sys shows a container all
    devices of the machine. ``gids`` are empty where nobody asked for them. ``gbps`` is what it carries
    in one direction, in decimal GB/s.
    """

    device: str
    number: int
    state: str
    link: str
    layer: str
    usable: bool
    gids: tuple[Gid, ...] = ()
    gbps: float | None = None

    @property
    def name(self) -> str:
        """Return "mlx5_0:1"."""
        return f"{self.device}:{self.number}"

    @property
    def is_active(self) -> bool:
        """Return whether NCCL would use it."""
        return self.state == "ACTIVE" and self.usable


def rdma_ports(root: Path = Path("/"), *, with_gids: bool = False) -> tuple[Port, ...]:
    """Return the ports that speak InfiniBand or RoCE, which NCCL can use by itself."""
    ports = all_ports(root, with_gids=with_gids)
    return tuple(port for port in ports if port.layer in (ETHERNET, INFINIBAND))


def all_ports(root: Path = Path("/"), *, with_gids: bool = False) -> tuple[Port, ...]:
    """Return the ports of all devices, in the order of their names.

    Amazon's EFA is among them: NCCL uses it through a plug-in. The table of a RoCE port's addresses
    has hundreds of places, each a file: they are read for those who need them.
    """
    nodes = _nodes(root)
    return tuple(
        _port(root / DEVICES / device / "ports" / port, device, device in nodes, with_gids)
        for device in names_in(root / DEVICES)
        for port in names_in(root / DEVICES / device / "ports")
        if port.isdecimal()
    )


def _nodes(root: Path) -> set[str]:
    """Return the devices whose node in /dev this process is shown."""
    shown = [name for name in names_in(root / NODES) if name.startswith("uverbs")]
    return {text_of(root / VERBS / name / "ibdev").strip() for name in shown}


def _port(place: Path, device: str, usable: bool, with_gids: bool) -> Port:
    layer = text_of(place / "link_layer").strip()
    return Port(
        device=device,
        number=int(place.name),
        state=_word(text_of(place / "state")),
        link=_word(text_of(place / "phys_state")),
        layer=layer,
        usable=usable,
        gids=tuple(_gids(place)) if with_gids and layer == ETHERNET else (),
        gbps=_gbps(text_of(place / "rate")),
    )


def _gbps(rate: str) -> float | None:
    """Return the GB/s of "400 Gb/sec (4X NDR)"."""
    gbit = re.match(r"(\d+(?:\.\d+)?) Gb/sec", rate)
    return float(gbit[1]) / 8 if gbit else None


def _word(numbered: str) -> str:
    """Return the word of "4: ACTIVE"."""
    return numbered.rpartition(":")[2].strip()


def _gids(place: Path) -> list[Gid]:
    """Return the addresses that are set: the table has hundreds of places, all but a few empty."""
    told = {int(name): text_of(place / "gids" / name).strip() for name in names_in(place / "gids")}
    return [
        Gid(index, _shortened(told[index]), text_of(place / "gid_attrs/types" / str(index)).strip())
        for index in sorted(told)
        if told[index] and ipaddress.IPv6Address(told[index]) != NO_GID
    ]


def _shortened(gid: str) -> str:
    address = ipaddress.IPv6Address(gid)
    return str(address.ipv4_mapped or address)
