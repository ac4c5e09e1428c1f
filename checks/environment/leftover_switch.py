"""A switch for debugging, or one that disables something, is still on.

Why it matters
    NCCL_P2P_DISABLE=1 or CUDA_LAUNCH_BLOCKING=1 help to find a fault; left in a launch script or
    an image, they cost a large part of the speed, or keep a hung job from ending, for as long as
    nobody looks.
What to do
    Remove the switch. If the job needs it, the fault it works around is still there: the checks
    of network, devices and collectives tell more.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from ddpcheck.check import Context
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.machine.places import nccl_host
from ddpcheck.measures.words import listed, spans
from ddpcheck.network.rdma import rdma
from ddpcheck.variables.leftovers import Switch, switches_on
from ddpcheck.variables.nccl_conf import origins, taken_back, with_conf_files

ROOT = Path("/")
TITLES = {
    Severity.WARNING: "a switch for debugging is still on",
    Severity.INFO: "switches that cost little here",
}


class Facts(msgspec.Struct, frozen=True):
    """The switches that are on, and what this host has that some of them would switch off.

    ``nccl_host`` is common to the ranks that NCCL takes for those of one host.
    ``infiniband`` is a network made for it, or for RoCE, and known only where a switch is about it.
    """

    host: str
    nccl_host: str
    on_gpu: bool
    infiniband: bool
    peer_access: bool
    switches: tuple[Switch, ...]


def probe(ctx: Context) -> Facts:
    """Return the switches that are on in this rank's environment, or in NCCL's files."""
    files = origins(ctx.environ, ROOT)
    found = [
        msgspec.structs.replace(switch, file=files.get(switch.name, ""))
        for switch in switches_on(with_conf_files(ctx.environ, ROOT))
    ]
    scopes = {switch.scope for switch in found} if ctx.on_gpu else set[str]()
    return Facts(
        host=ctx.host,
        nccl_host=nccl_host(ctx.host, ctx.environ),
        on_gpu=ctx.on_gpu,
        infiniband="ib" in scopes and rdma(ctx.host, ctx.environ, ROOT, with_gids=True).is_fabric,
        peer_access="p2p" in scopes and _peer_access(),
        switches=tuple(found),
    )


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return one warning about the switches that cost much, and one note about the others."""
    several_hosts = len({own.nccl_host for own in facts.values()}) > 1
    on: dict[Severity, dict[Switch, list[int]]] = {}
    for rank in sorted(facts):
        for switch in facts[rank].switches:
            severity = _severity(facts[rank], switch, several_hosts=several_hosts)
            on.setdefault(severity, {}).setdefault(switch, []).append(rank)
    return [_finding(severity, on[severity]) for severity in TITLES if severity in on]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return which switches are on."""
    names = sorted({switch.name for own in facts.values() for switch in own.switches})
    return f"on: {listed(names)}" if names else "no switch is on"


def _peer_access() -> bool:
    import torch

    count = torch.cuda.device_count()
    # A rank that is shown one GPU cannot tell; most GPUs of servers reach each other.
    pairs = [(one, other) for one in range(count) for other in range(one)]
    return not pairs or any(torch.cuda.can_device_access_peer(*pair) for pair in pairs)


def _severity(own: Facts, switch: Switch, *, several_hosts: bool) -> Severity:
    matters = {
        "cpu": True,
        "costly": own.on_gpu,
        "p2p": own.on_gpu and own.peer_access,
        "hosts": own.on_gpu and several_hosts,
        "ib": own.on_gpu and several_hosts and own.infiniband,
    }
    return Severity.WARNING if matters.get(switch.scope) else Severity.INFO


def _finding(severity: Severity, switches: Mapping[Switch, list[int]]) -> Finding:
    return Finding(
        title=TITLES[severity],
        message=listed(_told(switches), "; "),
        fix=taken_back((switch.name, switch.file) for switch in switches),
        ranks=tuple(sorted({rank for who in switches.values() for rank in who})),
        severity=severity,
        confidence=Confidence.HIGH if severity is Severity.WARNING else Confidence.MEDIUM,
    )


def _told(switches: Mapping[Switch, list[int]]) -> Iterator[str]:
    for switch, ranks in switches.items():
        where = f" in {switch.file}" if switch.file else ""
        yield f"{switch.name}={switch.value}{where} on rank {spans(ranks)}: {switch.cost}"
