"""Where this rank is, and the addresses and interface of its host to which the others connect."""

import ipaddress
from collections.abc import Mapping

import msgspec

from ddpcheck.machine.interfaces import interfaces
from ddpcheck.network.choice import Chosen
from ddpcheck.network.roster import Here, place_of
from ddpcheck.network.standing import Standing, standing

# Servers have up to eight cards: what comes after them is not tried, to keep the visits few.
ADDRESSES_COUNT = 8


class Wire(msgspec.Struct, frozen=True):
    """An interface, the network that it is in ("10.0.0.0/24"), and the size of its packets."""

    interface: str
    network: str
    mtu_bytes: int


def here(host: str, backend: str, environ: Mapping[str, str]) -> Here:
    """Return where this rank is, with the first address that its backend would tell the others."""
    told = told_by(standing(host, backend, environ))
    return Here(host, place_of(host), told[0].address if told else "")


def here_with_all(host: str, found: Standing | None) -> Here:
    """Return where this rank is, with all that its backend would tell, and the way out."""
    told = [each.address for each in told_by(found)]
    way = found.way.address if found and found.way else ""
    spare = "" if way in told else way
    return Here(host, place_of(host), told[0] if told else "", tuple(told[1:]), spare)


def own_wire(host: str, backend: str, environ: Mapping[str, str]) -> Wire | None:
    """Return the interface of the first address, or None when there is none."""
    for chosen in told_by(standing(host, backend, environ))[:1]:
        for each in interfaces():
            for address in each.addresses:
                if address.partition("/")[0] == chosen.address:
                    network = ipaddress.ip_interface(address).network
                    return Wire(each.name, str(network), each.mtu_bytes)
    return None


def told_by(found: Standing | None) -> tuple[Chosen, ...]:
    """Return what the backend would tell the others, the one of the start first, at most eight.

    Where NCCL's data go over InfiniBand or the like, it tells no more than the first. Nobody could
    come where that is loopback, or leads to the next router only, which other checks say: then it
    is what leads to MASTER_ADDR, or nothing when nothing leads anywhere.
    """
    if found is None:
        return ()
    spreads = found.backend != "nccl" or not found.has_rdma
    used = found.choice.chosen[: ADDRESSES_COUNT if spreads else 1]
    ways = [found.way] if found.way else []
    first = next((each for each in (*used[:1], *ways) if _leads_out(each)), None)
    more = [each for each in used[1:] if _leads_out(each) and each != first]
    return (first, *more) if first else ()


def _leads_out(chosen: Chosen) -> bool:
    return not (chosen.is_loopback or chosen.is_link_local)
