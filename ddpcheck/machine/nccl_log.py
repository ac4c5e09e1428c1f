"""What NCCL says in its log (NCCL_DEBUG=INFO) of the paths it chose and the variables it read.

The lines are those of NCCL 2.7 to 2.30: "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read",
"... [send] via NET/IB/3/GDRDMA", "NCCL_IB_GID_INDEX set by environment to 3.".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path as FilePath

import msgspec

from ddpcheck.machine.files import text_of

VIA = re.compile(
    r"Channel \d+(?:/\d+)? : (?P<source>\d+)\[[0-9a-f]+\] -> (?P<target>\d+)\[[0-9a-f]+\] "
    r"(?:\[(?:send|receive)\] )?via (?P<way>\S+)"
)
READ = re.compile(r"\b(NCCL_[A-Z0-9_]+) set by environment to (.+?)\.?$", re.MULTILINE)
SOCKETS = re.compile(r"NET/Socket : Using (.+?)\s*$", re.MULTILINE)
INTERFACE = re.compile(r"\[\d+\]([^:\s]+):")
CHANNELS = re.compile(r"(\d+) coll channels(?:.*?(\d+) nvls channels)?")
# From here on the log is of other groups too, whose ranks have other numbers.
SPLIT = "ncclCommSplit"
NETWORK = re.compile(r"Using network (.+?)\s*$", re.MULTILINE)
WARNING = re.compile(r"NCCL WARN (.+?)\s*$", re.MULTILINE)


class Transport(StrEnum):
    """How two GPUs exchange data, the fastest first."""

    P2P = "P2P"  # one GPU reads or writes the other's memory: over NVLink or PCIe
    NET_RDMA_DIRECT = "NET/IB/GDRDMA"  # the NIC reads and writes GPU memory
    SHM = "SHM"  # through memory of the host
    NET_RDMA = "NET/IB"
    NET_PLUGIN = "NET/plugin"
    NET_SOCKET = "NET/Socket"
    OTHER = "other"


class Path(msgspec.Struct, frozen=True):
    """The transport between two ranks, and NCCL's own words for it."""

    source: int
    target: int
    transport: Transport
    words: str


class Log(msgspec.Struct, frozen=True):
    """What one rank's log says: paths, the network, the variables read with their values.

    ``interfaces`` are those that sockets go through; ``channels_count`` is that of collectives,
    ``nvls_channels_count`` of those that an NVLink switch reduces.
    """

    paths: tuple[Path, ...] = ()
    network: str = ""
    interfaces: tuple[str, ...] = ()
    channels_count: int | None = None
    nvls_channels_count: int = 0
    variables: dict[str, str] = {}
    warnings: tuple[str, ...] = ()


def log_in(file: str) -> Log:
    """Return what a log file says; nothing when it cannot be read."""
    return read_log(text_of(FilePath(file)))


def read_log(text: str) -> Log:
    """Return what a log says of its first group; each path once, however many channels it has."""
    text = text.partition(SPLIT)[0]
    networks = NETWORK.findall(text)
    sockets, channels = SOCKETS.findall(text), CHANNELS.findall(text)
    return Log(
        paths=tuple(dict.fromkeys(_paths(text))),
        network=networks[-1] if networks else "",
        interfaces=tuple(INTERFACE.findall(sockets[-1])) if sockets else (),
        channels_count=int(channels[-1][0]) if channels else None,
        nvls_channels_count=int(channels[-1][1] or 0) if channels else 0,
        variables=dict(READ.findall(text)),
        warnings=tuple(dict.fromkeys(WARNING.findall(text))),
    )


def transport_of(words: str) -> Transport:
    """Return the transport that words such as NET/IB/3/GDRDMA stand for."""
    first, *more = words.split("/")
    if first == "P2P":
        return Transport.P2P
    if first == "SHM":
        return Transport.SHM
    if first != "NET" or not more:
        return Transport.OTHER
    if more[0] == "Socket":
        return Transport.NET_SOCKET
    if more[0].startswith("IB"):
        is_direct = any(word.startswith("GDRDMA") for word in more)
        return Transport.NET_RDMA_DIRECT if is_direct else Transport.NET_RDMA
    return Transport.NET_PLUGIN


def _paths(text: str) -> Iterator[Path]:
    for found in VIA.finditer(text):
        words = re.sub(r"/\d+(\(\d+\))?", "", found["way"])
        yield Path(int(found["source"]), int(found["target"]), transport_of(found["way"]), words)
