"""Which address (GID) of a RoCE port NCCL would use, and whether it leads to other hosts.

Source: NCCL v2.30.7, src/transport/net_ib/connect.cc (ncclIbGetGidIndex, ncclUpdateGidIndex), the
same since v2.21.5, src/transport/net_ib.cc.
"""

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

import msgspec

from ddpcheck.machine.infiniband import Gid, Port
from ddpcheck.variables.values import number_read

# From this release on NCCL looks for a good GID itself, unless told which; before, it takes 0.
CHOOSES_GID = (2, 21)
GID_INDEX = "NCCL_IB_GID_INDEX"
ADDRESS_FAMILY = "NCCL_IB_ADDR_FAMILY"
ADDRESS_RANGE = "NCCL_IB_ADDR_RANGE"
ROCE_VERSION = "NCCL_IB_ROCE_VERSION_NUM"
# How NCCL reads gid_attrs/types.
VERSIONS = {"IB/RoCE v1": 1, "RoCE v1": 1, "RoCE v2": 2}
USUAL_VERSION = 2
IPV4, IPV6 = 4, 6
# What an empty place of the table is for NCCL.
EMPTY = Gid(0, "::", "")


class GidRule(msgspec.Struct, frozen=True):
    """Which GID NCCL is told to use; ``index`` is None when it is to choose one by the others.

    ``family`` is 4 or 6, ``network`` such as "10.0.0.0/8" or '' for any.
    """

    index: int | None = None
    family: int = IPV4
    network: str = ""
    version: int = USUAL_VERSION

    def leads_on(self, gid: Gid) -> bool:
        """Return whether a GID leads to other hosts: not link-local, and of RoCE v2.

        Who asks for another version by name knows of its limits.
        """
        address = ipaddress.ip_address(gid.address)
        return VERSIONS.get(gid.kind) == self.version and not address.is_link_local

    def settings(self) -> dict[str, str]:
        """Return the variables that are not at their defaults."""
        told = {
            GID_INDEX: "" if self.index is None else str(self.index),
            ADDRESS_FAMILY: "AF_INET6" if self.family == IPV6 else "",
            ADDRESS_RANGE: self.network,
            ROCE_VERSION: "" if self.version == USUAL_VERSION else str(self.version),
        }
        return {name: value for name, value in told.items() if value}


# What NCCL does by itself, and what it can be told to where a network has IPv6 only.
UNTOLD, FOR_IPV6 = GidRule(), GidRule(family=IPV6)


def gid_rule(settings: Mapping[str, str]) -> GidRule:
    """Return how NCCL would read these settings."""
    index = settings.get(GID_INDEX, "")
    family = IPV6 if settings.get(ADDRESS_FAMILY, "") == "AF_INET6" else IPV4
    version = settings.get(ROCE_VERSION, "")
    return GidRule(
        index=number_read(index) if index and number_read(index) >= 0 else None,
        family=family,
        network=_network(settings.get(ADDRESS_RANGE, ""), family),
        version=number_read(version) if version else USUAL_VERSION,
    )


def used_gid(port: Port, rule: GidRule, nccl: Sequence[int]) -> Gid | None:
    """Return the GID that NCCL takes on a RoCE port, None when that place is empty."""
    known = {gid.index: gid for gid in port.gids}
    if rule.index is not None or tuple(nccl[:2]) < CHOOSES_GID:
        return known.get(rule.index or 0)
    taken = known.get(0, EMPTY)
    # A table has many more places than are filled.
    for index in range(1, max(known, default=0) + 2):
        gid = known.get(index, EMPTY)
        if _is_wanted(gid, rule) and _is_better(gid, taken, rule):
            taken = gid
    return None if taken is EMPTY else taken


def right_rule(ports: Iterable[Port]) -> GidRule | None:
    """Return the rule under which NCCL itself chooses well on all of these ports."""
    known = list(ports)
    for rule in (UNTOLD, FOR_IPV6):
        gids = [used_gid(port, rule, CHOOSES_GID) for port in known]
        if all(gid and rule.leads_on(gid) for gid in gids):
            return rule
    return None


def right_indexes(places: Iterable[tuple[GidRule, Port]]) -> set[int]:
    """Return the indexes that lead to other hosts on all of these ports; of IPv4 if any."""
    led = [[gid for gid in port.gids if rule.leads_on(gid)] for rule, port in places]
    old = [{gid.index for gid in gids if _family(gid) == IPV4} for gids in led]
    every = [{gid.index for gid in gids} for gids in led]
    return set.intersection(*old) or set.intersection(*every)


def _network(told: str, family: int) -> str:
    """Return the range as NCCL takes it, '' for one that it passes over."""
    with suppress(ValueError):
        network = ipaddress.ip_network(told, strict=False)
        is_whole = told.partition("/")[2].isdecimal()
        return str(network) if is_whole and network.version == family else ""
    return ""


def _is_wanted(gid: Gid, rule: GidRule) -> bool:
    if _family(gid) != rule.family:
        return False
    network = ipaddress.ip_network(rule.network) if rule.network else None
    return network is None or ipaddress.ip_address(gid.address) in network


def _is_better(gid: Gid, taken: Gid, rule: GidRule) -> bool:
    """Return whether NCCL leaves what it has taken for another that it wants."""
    if _family(taken) != rule.family:
        return True
    return _is_right(gid, rule) and not _is_right(taken, rule)


def _is_right(gid: Gid, rule: GidRule) -> bool:
    return _is_valid(gid) and VERSIONS.get(gid.kind) == rule.version


def _family(gid: Gid) -> int:
    return ipaddress.ip_address(gid.address).version


def _is_valid(gid: Gid) -> bool:
    """Return what NCCL takes for valid: it knows no link-local addresses of IPv4."""
    address = ipaddress.ip_address(gid.address)
    return address.version == IPV4 or not (address.is_link_local or address.is_unspecified)
