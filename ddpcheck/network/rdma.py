"""What NCCL makes of the InfiniBand and RoCE ports of a host: its settings, read as it does.

Sources: NCCL, user guide, "Environment Variables"; src/transport/net_ib (ncclIbInitDevices,
ncclIbGetGidIndex), src/misc/utils.cc (parseStringList, matchIfList).
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from ddpcheck.machine.infiniband import Gid, Port, rdma_ports
from ddpcheck.network.roster import place_of
from ddpcheck.variables.nccl_conf import with_conf_files

# From this release on NCCL looks for a good GID itself, unless told which; before, it takes 0.
CHOOSES_GID = (2, 21)
HCA, GID_INDEX = "NCCL_IB_HCA", "NCCL_IB_GID_INDEX"


class Rdma(msgspec.Struct, frozen=True):
    """The ports of a rank's host, and NCCL's settings; ``gid_index`` is None when not set.

    ``unused`` says why NCCL would use none of the ports, '' when it would.
    """

    host: str
    place: str
    ports: tuple[Port, ...]
    hca: str = ""
    gid_index: int | None = None
    unused: str = ""

    def chosen(self) -> tuple[Port, ...]:
        """Return the ports that the settings mean, whatever their state."""
        return tuple(port for port in self.ports if is_meant(self.hca, port))


def rdma(host: str, environ: Mapping[str, str], root: Path = Path("/")) -> Rdma:
    """Return what this rank's NCCL has to do with."""
    settings = with_conf_files(environ, root)
    index = settings.get(GID_INDEX, "").strip()
    return Rdma(
        host=host,
        place=place_of(host, root),
        ports=rdma_ports(root),
        hca=settings.get(HCA, ""),
        gid_index=int(index) if index.isdecimal() else None,
        unused=_unused(settings),
    )


def _unused(settings: Mapping[str, str]) -> str:
    disabled = settings.get("NCCL_IB_DISABLE", "")
    if disabled.isdecimal() and int(disabled):
        return f"NCCL_IB_DISABLE is {disabled}"
    network = settings.get("NCCL_NET", "")
    return f"NCCL_NET is {network}" if network and network.upper() != "IB" else ""


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


def used_gid(port: Port, gid_index: int | None, nccl: Sequence[int]) -> Gid | None:
    """Return the GID that NCCL takes on a RoCE port, None when that place is empty."""
    if gid_index is None and tuple(nccl[:2]) >= CHOOSES_GID:
        good = (gid for gid in port.gids if gid.is_routable)
        return next(good, port.gids[0] if port.gids else None)
    return next((gid for gid in port.gids if gid.index == (gid_index or 0)), None)


def _names(setting: str) -> list[str]:
    return [name for name in setting.lstrip("^").removeprefix("=").split(",") if name]


def _is_called(name: str, port: Port, exact: bool) -> bool:
    device, _, number = name.partition(":")
    named = port.device == device if exact else port.device.startswith(device)
    return named and (not number.isdecimal() or int(number) == port.number)
