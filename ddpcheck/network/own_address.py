"""Where this rank is, and the address and interface of its host to which the others connect."""

import ipaddress
from collections.abc import Mapping

import msgspec

from ddpcheck.machine.interfaces import interfaces
from ddpcheck.network.choice import Chosen
from ddpcheck.network.roster import Here, place_of
from ddpcheck.network.standing import standing


class Wire(msgspec.Struct, frozen=True):
    """An interface, the network that it is in ("10.0.0.0/24"), and the size of its packets."""

    interface: str
    network: str
    mtu_bytes: int


def here(host: str, backend: str, environ: Mapping[str, str]) -> Here:
    """Return where this rank is, with the address that its backend would tell the others."""
    chosen = own_address(host, backend, environ)
    return Here(host, place_of(host), chosen.address if chosen else "")


def own_wire(host: str, backend: str, environ: Mapping[str, str]) -> Wire | None:
    """Return the interface of that address, or None when there is none."""
    chosen = own_address(host, backend, environ)
    for each in interfaces() if chosen else []:
        for address in each.addresses:
            if chosen and address.partition("/")[0] == chosen.address:
                network = ipaddress.ip_interface(address).network
                return Wire(each.name, str(network), each.mtu_bytes)
    return None


def own_address(host: str, backend: str, environ: Mapping[str, str]) -> Chosen | None:
    """Return what the backend would tell the others, with the interface that has it.

    Nobody could come where that is loopback, or leads to the next router only, which other
    checks say: then it is what leads to MASTER_ADDR, or None when nothing leads anywhere.
    """
    found = standing(host, backend, environ)
    if found is None:
        return None
    candidates = [*found.choice.chosen[:1], *([found.way] if found.way else [])]
    return next((c for c in candidates if not (c.is_loopback or c.is_link_local)), None)
