"""NCCL moves data by a slower way than the machine offers.

Why it matters
    Two GPUs with NVLink exchange hundreds of GB/s, and some 10 through host memory; two hosts with
    InfiniBand hundreds of Gbit/s, and a tenth of that through sockets. NCCL falls back without a
    word, and nothing fails.

What to do
    Unset what switches a transport off (NCCL_P2P_DISABLE, NCCL_P2P_LEVEL, NCCL_IB_DISABLE,
    NCCL_NET). In a container, share /dev/shm and the devices (--ipc=host, --device
    /dev/infiniband, memlock unlimited). NCCL_DEBUG=INFO shows the reason at the start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.machine.gpu import Peer, gpu_of
from ddpcheck.machine.nccl_log import Path, Transport, log_in
from ddpcheck.machine.ways import PCIE_SWITCHES_COUNT
from ddpcheck.measures.words import listed
from ddpcheck.network.rdma import rdma

IB = "InfiniBand"
INDIRECT = "GPUs that can read each other's memory exchange data another way"
SHARE = (
    "share /dev/shm and the devices with the container (--ipc=host, --device /dev/infiniband, "
    "--ulimit memlock=-1); for GPUs of one host look at ACS and IOMMU, too"
)
SWITCHES = ("NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_IB_DISABLE", "NCCL_NET", "NCCL_IB_HCA")


class Facts(msgspec.Struct, frozen=True):
    """The paths from and to this rank, and what the machine offers.

    ``readable`` are the UUIDs of the near GPUs that this rank's GPU can read directly; ``hca_ports``
    the active ports of RDMA devices, with their link layer.
    """

    host: str
    machine: str
    uuid: str
    readable: tuple[str, ...]
    hca_ports: dict[str, str]
    paths: tuple[Path, ...]
    settings: dict[str, str]
    warnings: tuple[str, ...]


def probe(ctx: Context) -> Facts:
    """Read NCCL's log of this run's process group, NVML's and the kernel's word on the links."""
    ctx.require_group()
    ctx.require_gpu()
    if not ctx.nccl_log:
        raise Skip("NCCL_DEBUG is set: NCCL's log goes where you sent it")
    log = log_in(ctx.nccl_log)
    if not log.paths:
        raise Skip("NCCL's log names no path between ranks")
    gpu = gpu_of(ctx.device)
    own = None if isinstance(gpu, str) else gpu
    return Facts(
        host=ctx.host,
        machine=ctx.machine,
        uuid=own.uuid if own else "",
        readable=tuple(peer.uuid for peer in own.peers if _is_near(peer)) if own else (),
        hca_ports=_active_ports(ctx),
        paths=log.paths,
        settings={name: ctx.environ[name] for name in SWITCHES if name in ctx.environ},
        warnings=log.warnings[:4],
    )


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for pairs that could read each other's memory, and one for sockets."""
    paths = {(path.source, path.target): path for own in facts.values() for path in own.paths}
    known = [path for pair, path in sorted(paths.items()) if set(pair) <= facts.keys()]
    near = [path for path in known if _could_be_direct(path, facts)]
    far = [path for path in known if _could_be_rdma(path, facts)]
    return [
        *([_finding(near, facts, INDIRECT, Severity.WARNING)] if near else []),
        *([_sockets(far, facts)] if far else []),
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many paths there are of each kind."""
    paths = {(path.source, path.target): path for own in facts.values() for path in own.paths}
    counts = Counter(path.words for path in paths.values())
    return ", ".join(f"{count} paths via {words}" for words, count in counts.most_common())


def _is_near(peer: Peer) -> bool:
    """Return whether NCCL reads this GPU's memory directly unless told otherwise.

    Through a processor it may choose host memory, which can be the faster way there.
    """
    near = peer.nvlink == 0 or (peer.topology is not None and peer.topology <= PCIE_SWITCHES_COUNT)
    return peer.read == 0 and near


def _could_be_direct(path: Path, facts: Mapping[int, Facts]) -> bool:
    one, other = facts[path.source], facts[path.target]
    is_near = one.machine == other.machine and path.transport is not Transport.P2P
    return is_near and other.uuid in one.readable and one.uuid in other.readable


def _could_be_rdma(path: Path, facts: Mapping[int, Facts]) -> bool:
    one, other = facts[path.source], facts[path.target]
    is_far = one.machine != other.machine and path.transport is Transport.NET_SOCKET
    return is_far and bool(one.hca_ports) and bool(other.hca_ports)


def _sockets(paths: Sequence[Path], facts: Mapping[int, Facts]) -> Finding:
    ends = {rank for path in paths for rank in (path.source, path.target)}
    layers = {layer for rank in ends for layer in facts[rank].hca_ports.values()}
    # RoCE ports may be there for storage, or be plain Ethernet to the user.
    kind, severity = (IB, Severity.ERROR) if IB in layers else ("RoCE", Severity.WARNING)
    return _finding(paths, facts, f"hosts with {kind} exchange data by sockets", severity)


def _finding(
    paths: Sequence[Path], facts: Mapping[int, Facts], title: str, severity: Severity
) -> Finding:
    ranks = sorted({rank for path in paths for rank in (path.source, path.target)})
    set_to = {f"{k}={v}" for rank in ranks for k, v in facts[rank].settings.items()}
    said = dict.fromkeys(word for rank in ranks for word in facts[rank].warnings)
    reasons = [*sorted(set_to), *said] or ["NCCL gives no reason: see NCCL_DEBUG=INFO"]
    ports = sorted({port for rank in ranks for port in facts[rank].hca_ports})
    offered = "NVML says that peer-to-peer reads work" if title is INDIRECT else f"active: {ports}"
    switch_off = listed(sorted({word.partition("=")[0] for word in set_to}))
    return Finding(
        title=title,
        message=f"ranks {listed(f'{p.source}-{p.target}' for p in paths)} go via "
        f"{paths[0].words}; {offered}; {listed(reasons, '; ')}",
        fix=f"unset {switch_off}, unless it is meant" if set_to else SHARE,
        ranks=tuple(ranks),
        severity=severity,
        confidence=Confidence.HIGH if severity is Severity.ERROR else Confidence.MEDIUM,
    )


def _active_ports(ctx: Context) -> dict[str, str]:
    ports = rdma(ctx.host, ctx.environ).ports
    return {port.name: port.layer for port in ports if port.is_active}
