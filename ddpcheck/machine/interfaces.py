"""The network interfaces of this host, in the order in which the kernel lists their addresses."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from socket import AF_INET, AF_INET6
from typing import Any

import msgspec

from ddpcheck.machine.files import text_of
from ddpcheck.machine.places import namespace, shared_place

# The kernel's numbers for kinds of links (Linux, include/uapi/linux/if_arp.h, ARPHRD_...).
LOOPBACK_LINK = 772
# IPIP, IP6IP6, SIT, GRE, GRE over IPv6, and no link layer at all: tun, WireGuard.
TUNNEL_LINKS = frozenset({768, 769, 776, 778, 823, 65534})
# What the kernel calls them in uevent, where the link looks like Ethernet.
TUNNEL_TYPES = frozenset({"vxlan", "geneve", "wireguard"})


class Kind(StrEnum):
    """What is behind an interface, as far as /sys tells; the rest is virtual."""

    LOOPBACK = "loopback"
    PHYSICAL = "physical"
    BOND = "bond"
    VLAN = "vlan"
    BRIDGE = "bridge"
    TUNNEL = "tunnel"
    VETH = "veth"
    VIRTUAL = "virtual"


class Interface(msgspec.Struct, frozen=True):
    """An interface: ``running`` is up and with a carrier, ``mtu_bytes`` 0 where not known.

    ``addresses`` have their prefix lengths ("10.0.0.1/24"), those of IPv4 come first.
    """

    name: str
    kind: Kind
    running: bool
    mtu_bytes: int
    addresses: tuple[str, ...]

    def hosts(self) -> tuple[str, ...]:
        """Return the addresses without their prefix lengths."""
        return tuple(address.partition("/")[0] for address in self.addresses)


def interfaces(root: Path = Path("/")) -> list[Interface]:
    """Return the interfaces that have an address, or none where the kernel does not tell."""
    import psutil

    with suppress(OSError):
        states = psutil.net_if_stats()
        return [
            Interface(
                name=name,
                kind=kind_of(name, root),
                running=name in states and states[name].isup,
                mtu_bytes=states[name].mtu if name in states else 0,
                addresses=found,
            )
            for name, told in psutil.net_if_addrs().items()
            if (found := _addresses(told))
        ]
    return []


def kind_of(name: str, root: Path = Path("/")) -> Kind:
    """Return what is behind an interface."""
    place = root / "sys/class/net" / name
    link, told = _number(place / "type"), text_of(place / "uevent")
    if link == LOOPBACK_LINK or name == "lo":
        return Kind.LOOPBACK
    if link in TUNNEL_LINKS or any(f"DEVTYPE={kind}" in told for kind in TUNNEL_TYPES):
        return Kind.TUNNEL
    for kind, sign in ((Kind.BRIDGE, "bridge"), (Kind.BOND, "bonding"), (Kind.PHYSICAL, "device")):
        if (place / sign).exists():
            return kind
    if "DEVTYPE=vlan" in told:
        return Kind.VLAN
    return Kind.VETH if _leads_elsewhere(place) else Kind.VIRTUAL


def loopback_domain(host: str, root: Path = Path("/")) -> str:
    """Return a short text, the same for the processes that reach each other over loopback.

    They share a kernel and a network namespace; where neither can be told, the host's name.
    """
    network = namespace("net", root)
    return shared_place(host, network, root=root) if network else host


def _addresses(told: Sequence[Any]) -> tuple[str, ...]:
    return tuple(
        f"{each.address.partition('%')[0]}/{_prefix_bits(each.netmask, each.family)}"
        for family in (AF_INET, AF_INET6)
        for each in told
        if each.family == family
    )


def _prefix_bits(netmask: str | None, family: int) -> int:
    if not netmask:
        return 32 if family == AF_INET else 128
    return int(ipaddress.ip_address(netmask)).bit_count()


def _leads_elsewhere(place: Path) -> bool:
    """Return whether its other end is another interface, and not one below it on this host."""
    other_end, own = _number(place / "iflink"), _number(place / "ifindex")
    return other_end not in (own, 0) and not any(place.glob("lower_*"))


def _number(file: Path) -> int:
    text = text_of(file).strip()
    return int(text) if text.isdecimal() else 0
