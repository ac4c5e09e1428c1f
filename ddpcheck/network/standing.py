"""Where a rank stands in the network: its host, and the addresses that it would tell the others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from pathlib import Path

import msgspec

from ddpcheck.machine.infiniband import all_ports
from ddpcheck.machine.interfaces import Interface, Kind, interfaces, loopback_domain
from ddpcheck.measures.words import listed
from ddpcheck.network.choice import (
    GLOO_NAME,
    NCCL_NAME,
    Choice,
    Chosen,
    called_by_others,
    gloo_choice,
    nccl_choice,
    owner_of,
)
from ddpcheck.network.names import OwnName, own_name
from ddpcheck.network.rdma import carriers, names_plugin
from ddpcheck.network.roster import address_towards
from ddpcheck.variables.nccl_conf import with_conf_files

LOOK = "the interface that leads to the other hosts (ip -brief address lists them)"


class Standing(msgspec.Struct, frozen=True):
    """Where a rank stands: ``domain`` is the same for those who share a loopback.

    ``way`` leads to MASTER_ADDR, None when it is not known or not over an interface that leads
    anywhere; ``families`` are the IP versions in which this host can be reached at all.
    """

    host: str
    domain: str
    backend: str
    choice: Choice
    own: OwnName
    way: Chosen | None = None
    families: tuple[int, ...] = ()
    has_rdma: bool = False


def standing(
    host: str,
    backend: str,
    environ: Mapping[str, str],
    root: Path = Path("/"),
    look_up: Callable[[str], OwnName] = own_name,
) -> Standing | None:
    """Return how this rank stands, or None where the kernel tells no interfaces; asks once.

    Many checks want to know, and a name server may take seconds to answer.
    """
    return remembered(host, backend, tuple(sorted(environ.items())), root, look_up)


@cache
def remembered(
    host: str,
    backend: str,
    variables: tuple[tuple[str, str], ...],
    root: Path,
    look_up: Callable[[str], OwnName],
) -> Standing | None:
    """Return how this rank stands; the variables are those of its environment."""
    environ = dict(variables)
    found = interfaces(root)
    if not found:
        return None
    own = look_up(host)
    settings = with_conf_files(environ, root)
    nccl = nccl_choice(found, settings)
    choice = nccl if backend == "nccl" else gloo_choice(found, environ, own.usable)
    return Standing(
        host=host,
        domain=loopback_domain(host, root),
        backend=backend,
        choice=choice,
        own=own,
        way=way_out(environ.get("MASTER_ADDR", ""), found),
        families=_families(found),
        has_rdma=backend == "nccl" and _has_rdma(settings, root),
    )


def way_out(master: str, found: Iterable[Interface]) -> Chosen | None:
    """Return what leads to MASTER_ADDR, or else the first interface that leads anywhere."""
    known = list(found)
    own = address_towards(master) if master else ""
    towards = [owner_of(own, known)] if own else []
    others = (
        Chosen(each.name, address, each.kind)
        for each in known
        for address in each.hosts()
        if each.running and each.kind not in (Kind.BRIDGE, Kind.TUNNEL)
    )
    usable = (e for e in (*towards, *others) if e.interface and not e.is_loopback)
    return next((each for each in usable if not each.is_link_local), None)


def are_several_hosts(standings: Mapping[int, Standing]) -> bool:
    """Return whether not all ranks reach each other over loopback."""
    return len({each.domain for each in standings.values()}) > 1


def callers_fail(standings: Mapping[int, Standing]) -> set[str]:
    """Return the domains of gloo's hosts that others would connect to."""
    told = {each.domain: [c.address for c in each.choice.chosen] for each in standings.values()}
    return called_by_others(told)


def variable(backend: str) -> str:
    """Return the variable that names interfaces for a backend."""
    return NCCL_NAME if backend == "nccl" else GLOO_NAME


def export(standings: Iterable[Standing], name: str, avoid: Collection[str] = ()) -> str:
    """Return the commands that name the right interface in a variable, on each of these hosts.

    ``avoid`` are the interfaces and addresses that have been found to be wrong.
    """
    hosts: dict[str, set[str]] = {}
    for each in standings:
        way = each.way
        good = way and way.interface not in avoid and way.address not in avoid
        hosts.setdefault(way.interface if way and good else "", set()).add(each.host)
    told = [
        f"export {name}={interface} on {names(there)}"
        if interface
        else f"name {LOOK} in {name} on {names(there)}"
        for interface, there in sorted(hosts.items(), reverse=True)
    ]
    return "; ".join(told)


def names(hosts: Iterable[str]) -> str:
    """Return the first of these names, each once, and how many more there are."""
    return listed(sorted(set(hosts)))


def _families(found: Iterable[Interface]) -> tuple[int, ...]:
    chosen = (
        Chosen(each.name, address, each.kind)
        for each in found
        for address in each.hosts()
        if each.running
    )
    return tuple(sorted({c.family for c in chosen if not (c.is_loopback or c.is_link_local)}))


def _has_rdma(settings: Mapping[str, str], root: Path) -> bool:
    """Return whether NCCL's data go over InfiniBand, RoCE or a plugin, as far as can be told."""
    return names_plugin(settings) or bool(carriers(settings, all_ports(root)))
