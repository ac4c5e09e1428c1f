"""What NCCL makes of the InfiniBand and RoCE ports of a host: its settings, read as it does.

Sources: NCCL, user guide, "Environment Variables"; src/transport/net_ib (ncclIbInitDevices),
src/plugin/net.cc (ncclNetInit), src/misc/ibvsymbols.cc (buildIbvSymbols), src/misc/utils.cc
(parseStringList, matchIfList).
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from ddpcheck.machine.infiniband import ETHERNET, INFINIBAND, Port, rdma_ports
from ddpcheck.machine.libraries import can_be_loaded
from ddpcheck.network.roce import GidRule, gid_rule
from ddpcheck.network.roster import place_of
from ddpcheck.variables.nccl_conf import origins, taken_back, with_conf_files
from ddpcheck.variables.values import number_read

HCA = "NCCL_IB_HCA"
# NCCL's names for its own networks; any other name is a plugin's. Letter case does not count.
OWN_NETWORKS = ("", "ib", "socket")
# NCCL loads one of these when it starts; since 2.30.3 it first tries what NCCL_IBVERBS_LIB names.
VERBS_LIBRARIES = ("libibverbs.so", "libibverbs.so.1")
# Where a network is made for RoCE, it has cards of its own, for several GPUs.
RAILS_COUNT = 2


class Rdma(msgspec.Struct, frozen=True):
    """The ports of a rank's host, and NCCL's settings.

    ``unused`` says why NCCL would use none of the ports, '' when it would; ``has_library`` is False
    where ports are up and NCCL would not find libibverbs. ``origins`` are the files that settings
    come from which are not in the environment.
    """

    host: str
    place: str
    ports: tuple[Port, ...]
    hca: str = ""
    gid: GidRule = GidRule()
    unused: str = ""
    has_library: bool = True
    origins: dict[str, str] = {}

    def chosen(self) -> tuple[Port, ...]:
        """Return the ports that the settings mean, whatever their state."""
        return tuple(port for port in self.ports if is_meant(self.hca, port))

    def active(self, layer: str) -> list[Port]:
        """Return the ports of one link layer that NCCL would use."""
        return [port for port in self.chosen() if port.is_active and port.layer == layer]

    @property
    def is_fabric(self) -> bool:
        """Return whether there is a network that is made for RDMA; its addresses must be known.

        A card for the host's own traffic looks like RoCE as well: one such port proves nothing.
        """
        led = {p.device for p in self.active(ETHERNET) if any(map(self.gid.leads_on, p.gids))}
        return bool(self.active(INFINIBAND)) or len(led) >= RAILS_COUNT


def rdma(
    host: str, environ: Mapping[str, str], root: Path = Path("/"), *, with_gids: bool = False
) -> Rdma:
    """Return what this rank's NCCL has to do with; the ports' addresses only when asked for."""
    settings = with_conf_files(environ, root)
    ports, hca = rdma_ports(root, with_gids=with_gids), settings.get(HCA, "")
    is_up = any(port.is_active and is_meant(hca, port) for port in ports)
    return Rdma(
        host=host,
        place=place_of(host, root),
        ports=ports,
        hca=hca,
        gid=gid_rule(settings),
        unused=unused(settings),
        has_library=not is_up or has_verbs(settings),
        origins={n: path for n, path in origins(environ, root).items() if n.startswith("NCCL_IB")},
    )


def carriers(settings: Mapping[str, str], ports: Iterable[Port]) -> tuple[Port, ...]:
    """Return the ports that NCCL's data between hosts would go over; none when over sockets.

    A plugin, also Amazon's for EFA, takes what there is: NCCL_IB_... are for NCCL's own transport.
    """
    up, hca = [port for port in ports if port.is_active], settings.get(HCA, "")
    if names_plugin(settings):
        return tuple(up)
    own = [] if unused(settings) else [p for p in up if _is_own(p) and is_meant(hca, p)]
    foreign = [] if settings.get("NCCL_NET") else [port for port in up if not _is_own(port)]
    return (*foreign, *(own if own and has_verbs(settings) else []))


def unused(settings: Mapping[str, str]) -> str:
    """Return which setting keeps NCCL's own InfiniBand and RoCE from being used, or ''."""
    disabled = settings.get("NCCL_IB_DISABLE", "")
    if number_read(disabled):
        return f"NCCL_IB_DISABLE is {disabled}"
    network = settings.get("NCCL_NET", "")
    return f"NCCL_NET is {network}" if network and network.casefold() != "ib" else ""


def names_plugin(settings: Mapping[str, str]) -> bool:
    """Return whether NCCL is told to use a network that is not its own."""
    return settings.get("NCCL_NET", "").casefold() not in OWN_NETWORKS


def has_verbs(settings: Mapping[str, str]) -> bool:
    """Return whether NCCL would find libibverbs, without which it uses no port."""
    named = settings.get("NCCL_IBVERBS_LIB", "")
    return can_be_loaded([name for name in (named, *VERBS_LIBRARIES) if name])


def towards(rule: GidRule, hosts: Sequence[Rdma]) -> str:
    """Return the commands that let NCCL choose addresses by this rule on these hosts."""
    undo = taken_back(
        (name, own.origins.get(name, ""))
        for own in hosts
        for name, value in own.gid.settings().items()
        if rule.settings().get(name) != value
    )
    export = [f"export {name}={value} on all ranks" for name, value in rule.settings().items()]
    return "; ".join([*([undo] if undo else []), *export])


def is_meant(setting: str, port: Port) -> bool:
    """Return whether NCCL_IB_HCA means a port: "mlx5", "=mlx5_0:1,mlx5_1", "^mlx5_2", "^=...".

    Names are prefixes, but after "="; without a number all ports of a device are meant.
    """
    excludes = setting.startswith("^")
    names = setting.removeprefix("^")
    wanted = _names(names)
    exact = names.startswith("=")
    return (not wanted or any(_is_called(each, port, exact) for each in wanted)) != excludes


def idle_names(setting: str, ports: Iterable[Port]) -> list[str]:
    """Return the names in NCCL_IB_HCA that mean no port; none of those that are to be left out."""
    if setting.startswith("^"):
        return []
    known = list(ports)
    exact = setting.startswith("=")
    return [n for n in _names(setting) if not any(_is_called(n, port, exact) for port in known)]


def exactly(ports: Sequence[Port]) -> str:
    """Return the setting of NCCL_IB_HCA that means the devices of these ports, and no other."""
    return f"={','.join(dict.fromkeys(port.device for port in ports))}"


def _is_own(port: Port) -> bool:
    return port.layer in (ETHERNET, INFINIBAND)


def _names(setting: str) -> list[str]:
    return [name for name in setting.lstrip("^").removeprefix("=").split(",") if name]


def _is_called(name: str, port: Port, exact: bool) -> bool:
    device, _, number = name.partition(":")
    named = port.device == device if exact else port.device.startswith(device)
    return named and (not number.isdecimal() or int(number) == port.number)
