"""What the links of this machine carry that NCCL chose, as the machine itself tells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from ddpcheck.machine.files import text_of
from ddpcheck.machine.gpu import SWITCH, Gpu, Link
from ddpcheck.machine.infiniband import DEVICES, ETHERNET, Port
from ddpcheck.machine.interfaces import Kind, kind_of
from ddpcheck.machine.link_speed import link_gbps
from ddpcheck.machine.nccl_log import Log, Transport

RDMA = (Transport.NET_RDMA, Transport.NET_RDMA_DIRECT)
# NVML's topology level of GPUs with only PCIe switches between them (nvml.h, "MULTIPLE").
PCIE_SWITCHES_COUNT = 20
# Faster cards need more than NCCL's few sockets to be filled.
FASTEST_SOCKET_GBPS = 25 / 8


class Way(msgspec.Struct, frozen=True):
    """What this rank's data to some other rank goes through at least.

    ``gbps`` is what it carries in one direction, in decimal GB/s; ``words`` is what it is.
    """

    target: int
    gbps: float
    words: str


def ways_from(
    rank: int, log: Log, gpu: Gpu | None, ports: Sequence[Port], root: Path = Path("/")
) -> tuple[Way, ...] | None:
    """Return the ways of this rank's data, or None where the machine does not tell all of them.

    Where several links could carry it, one of them counts, the slowest: how many NCCL really uses
    depends on the collective.
    """
    found: list[Way] = []
    for path in log.paths:
        if path.source == rank:
            told = _slowest(path.transport, log, gpu, ports, root)
            if told is None:
                return None
            found.append(Way(path.target, *told))
    return tuple(found) or None


def _slowest(
    transport: Transport, log: Log, gpu: Gpu | None, ports: Sequence[Port], root: Path
) -> tuple[float, str] | None:
    if transport is Transport.P2P:
        return _between_gpus(gpu, root) if gpu else None
    if transport in RDMA:
        return _through_ports(gpu, ports, root)
    if transport is Transport.NET_SOCKET:
        return _through_sockets(log.interfaces, root)
    return None  # through host memory, or a plug-in's network


def _through_ports(gpu: Gpu | None, ports: Sequence[Port], root: Path) -> tuple[float, str] | None:
    """Return the slowest port, or PCI Express link of a port's card or of the GPU."""
    if any(port.layer == ETHERNET for port in ports) and _is_virtual(root):
        return None  # a virtual card tells the speed of the whole one
    cards = {
        port.device: (root / DEVICES / port.device / "device").resolve().name for port in ports
    }
    links = [(f"{name}'s PCI Express", link_gbps(address, root)) for name, address in cards.items()]
    links.append(("the GPU's PCI Express", link_gbps(gpu.pci, root) if gpu else None))
    known = [(gbps, f"{words} of {gbps:.3g} GB/s") for words, gbps in links if gbps is not None]
    for port in ports:
        if port.gbps is None:
            return None
        known.append((port.gbps, f"{port.name}, {8 * port.gbps:g} Gbit/s"))
    return min(known) if ports else None


def _is_virtual(root: Path) -> bool:
    """Return whether this is a virtual machine: clouds give it a part of a card's speed."""
    flags = text_of(root / "proc/cpuinfo").partition("\nflags")[2].partition("\n")[0]
    return "hypervisor" in flags.split()


def _between_gpus(gpu: Gpu, root: Path) -> tuple[float, str] | None:
    up = [link for link in gpu.links if link.active]
    if gpu.peers and all(peer.nvlink == 0 for peer in gpu.peers):
        return _nvlinks(up)
    levels = [peer.topology for peer in gpu.peers]
    if up or not levels or any(level is None or level > PCIE_SWITCHES_COUNT for level in levels):
        return None
    gbps = link_gbps(gpu.pci, root)
    return None if gbps is None else (gbps, f"PCI Express of {gbps:.3g} GB/s")


def _nvlinks(up: Sequence[Link]) -> tuple[float, str] | None:
    """Return what leads to the other GPU that the fewest links lead to; a switch is one for all."""
    remotes = Counter(SWITCH if link.remote == SWITCH else link.remote for link in up)
    speeds = [link.gbps for link in up if link.gbps]
    if not up or len(speeds) < len(up):
        return None
    count = min(remotes.values())
    return count * min(speeds), f"{count} NVLink{'s' * (count > 1)} of {min(speeds):.3g} GB/s"


def _through_sockets(interfaces: Iterable[str], root: Path) -> tuple[float, str] | None:
    """Return the slowest interface; a virtual one's speed is made up."""
    known: list[tuple[float, str]] = []
    for name in interfaces:
        told = text_of(root / "sys/class/net" / name / "speed").strip()
        mbit = int(told) if told.isdecimal() else 0
        if not mbit or kind_of(name, root) is not Kind.PHYSICAL or _is_virtual(root):
            return None
        known.append((mbit / 8000, f"{name}, {mbit / 1000:g} Gbit/s"))
    return min(known) if known and min(known)[0] <= FASTEST_SOCKET_GBPS else None
