"""Standings of ranks that no host has."""

from ddpcheck.machine.interfaces import Kind
from ddpcheck.network.choice import Choice, Chosen
from ddpcheck.network.names import OwnName
from ddpcheck.network.standing import Standing

KINDS = {"lo": Kind.LOOPBACK, "docker0": Kind.BRIDGE, "virbr0": Kind.BRIDGE, "tun0": Kind.TUNNEL}


def chosen(interface: str, address: str) -> Chosen:
    return Chosen(interface, address, KINDS.get(interface, Kind.PHYSICAL))


def stands(
    host: str,
    *used: tuple[str, str],
    backend: str = "nccl",
    setting: str = "",
    own: str = "",
    found: tuple[str, ...] | None = None,
    way: tuple[str, str] | None = ("eth0", "10.0.0.7"),
    families: tuple[int, ...] = (4,),
    has_rdma: bool = False,
    missing: tuple[str, ...] = (),
    idle: tuple[str, ...] = (),
    domain: str = "",
) -> Standing:
    """Return how a rank stands on a host that has a loopback of its own, by its name."""
    return Standing(
        host=host,
        domain=domain or f"network of {host}",
        backend=backend,
        choice=Choice(setting, tuple(chosen(*each) for each in used), missing, idle),
        own=OwnName((own,) if found is None else found, own),
        way=chosen(*way) if way else None,
        families=families,
        has_rdma=has_rdma,
    )
