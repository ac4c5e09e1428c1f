"""Which of a host's addresses NCCL and gloo would tell the other hosts: pure functions.

Sources: NCCL, user guide, "Environment Variables", NCCL_SOCKET_IFNAME and NCCL_SOCKET_FAMILY, and
src/misc/socket.cc (ncclFindInterfaces), src/os/linux.cc (ncclOsFindInterfaces), src/bootstrap.cc
(bootstrapNetInit); torch, ProcessGroupGloo.cpp (createDefaultDevice) and init.cpp; gloo,
transport/tcp/device.cc (lookupAddrForIface, isInitiator).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from ddpcheck.machine.interfaces import Interface, Kind

# NCCL takes no more (src/include/socket.h, MAX_IFS).
INTERFACES_COUNT = 16
# Without a setting NCCL takes the first of these that matches anything; releases before 2.28
# take virbr with the third.
DEFAULT_ORDER = ("ib", "^docker,lo,virbr", "docker", "lo", "virbr")
FAMILIES = {"AF_INET": 4, "AF_INET6": 6}
NCCL_NAME, GLOO_NAME = "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"


class Chosen(msgspec.Struct, frozen=True):
    """An interface and its address that would be used."""

    interface: str
    address: str
    kind: Kind

    @property
    def is_loopback(self) -> bool:
        """Return whether nobody but this host can reach the address."""
        return ipaddress.ip_address(self.address).is_loopback

    @property
    def is_link_local(self) -> bool:
        """Return whether the address leads no further than the next router."""
        return ipaddress.ip_address(self.address).is_link_local

    @property
    def family(self) -> int:
        """Return 4 or 6."""
        return ipaddress.ip_address(self.address).version


class Choice(msgspec.Struct, frozen=True):
    """What would be used under a setting, '' when there is none; the first carries the start.

    ``missing`` are the names that stand for no interface, ``idle`` are those interfaces that the
    setting means and that do not run.
    """

    setting: str
    chosen: tuple[Chosen, ...]
    missing: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()

    @property
    def is_named(self) -> bool:
        """Return whether a user has named what to use, and not just what to leave out."""
        return bool(self.setting) and not self.setting.startswith("^")


def nccl_choice(interfaces: Sequence[Interface], settings: Mapping[str, str]) -> Choice:
    """Return what NCCL would use; its first is where the ranks meet."""
    forced = settings.get("NCCL_SOCKET_FAMILY", "")
    family = FAMILIES.get(forced, 0)
    under = f" under NCCL_SOCKET_FAMILY={forced}" if family else ""
    running = [each for each in interfaces if each.running]
    if len(setting := settings.get(NCCL_NAME, "")) > 1:
        found = _matching(setting, running, family)
        idle = () if found else _matching(setting, interfaces, family)
        missing = () if found or idle else (f"{setting}{under}",)
        names = tuple(each.interface for each in idle)
        return Choice(setting, found[:INTERFACES_COUNT], missing, names)
    near = _in_subnet_of(_address_of(settings.get("NCCL_COMM_ID", "")), interfaces)
    first, *others = (_matching(names, running, family) for names in DEFAULT_ORDER)
    found = next((each for each in (first, near, *others) if each), ())
    missing = () if found or not family else (f"any name{under}",)
    return Choice("", found[:INTERFACES_COUNT], missing)


def gloo_choice(interfaces: Sequence[Interface], settings: Mapping[str, str], own: str) -> Choice:
    """Return what gloo would use: all of it, from the start.

    ``own`` is the address that it would find for the host's own name, '' when that is not known.
    """
    if len(setting := settings.get(GLOO_NAME, "")) > 1:
        known = {each.name: each for each in interfaces}
        names = setting.removesuffix(",").split(",")
        chosen = tuple(_first(known[name]) for name in names if name in known)
        return Choice(setting, chosen, tuple(name for name in names if name not in known))
    return Choice("", (owner_of(own, interfaces),) if own else ())


def owner_of(address: str, interfaces: Sequence[Interface]) -> Chosen:
    """Return an address with the interface that has it; all loopback addresses are lo's."""
    owner = next((each for each in interfaces if address in each.hosts()), None)
    if owner:
        return Chosen(owner.name, address, owner.kind)
    loopback = ipaddress.ip_address(address).is_loopback
    return Chosen("lo" if loopback else "", address, Kind.LOOPBACK if loopback else Kind.VIRTUAL)


def called_by_others(addresses: Mapping[str, Sequence[str]]) -> set[str]:
    """Return the hosts, by name, that another host's gloo would connect to.

    Of two hosts the one with the higher address connects to the other; of equal ones, either.
    """
    called: set[str] = set()
    for column in range(max(map(len, addresses.values()), default=0)):
        told = [
            (ipaddress.ip_address(each[column]), host)
            for host, each in addresses.items()
            if column < len(each)
        ]
        for version in FAMILIES.values():
            own = {host: address for address, host in told if address.version == version}
            top = max(own.values(), default=None)
            highest = [host for host in own if own[host] == top]
            called |= own.keys() - (highest if len(highest) == 1 else [])
    return called


def _matching(setting: str, interfaces: Sequence[Interface], family: int) -> tuple[Chosen, ...]:
    """Return the interfaces that a setting of NCCL means, each with its first address."""
    excludes = setting.startswith("^")
    names = setting.removeprefix("^")
    exact = names.startswith("=")
    # What follows a colon is a port, which only InfiniBand has.
    wanted = [name for part in names.removeprefix("=").split(",") if (name := part.split(":")[0])]
    return tuple(
        found
        for each in interfaces
        if _means(wanted, each.name, exact) != excludes
        for found in _usable(each, family)
    )


def _means(wanted: Sequence[str], name: str, exact: bool) -> bool:
    return not wanted or any(name == each if exact else name.startswith(each) for each in wanted)


def _usable(interface: Interface, family: int) -> Iterator[Chosen]:
    for address in interface.hosts():
        chosen = Chosen(interface.name, address, interface.kind)
        # NCCL passes over ::1, and not over 127.0.0.1.
        if family in (0, chosen.family) and not (":" in address and chosen.is_loopback):
            yield chosen
            return


def _first(interface: Interface) -> Chosen:
    return Chosen(interface.name, interface.hosts()[0], interface.kind)


def _in_subnet_of(peer: str, interfaces: Sequence[Interface]) -> tuple[Chosen, ...]:
    if peer:
        for each in interfaces:
            for address in each.addresses:
                if ipaddress.ip_address(peer) in ipaddress.ip_interface(address).network:
                    return (Chosen(each.name, address.partition("/")[0], each.kind),)
    return ()


def _address_of(place: str) -> str:
    """Return the address of "10.0.0.1:4000" or "[fd00::1]:4000", or '' when it is a name."""
    host = place.removeprefix("[").partition("]")[0] if place.startswith("[") else ""
    host = host or place.partition(":")[0]
    try:
        return str(ipaddress.ip_address(host.partition("%")[0]))
    except ValueError:
        return ""
