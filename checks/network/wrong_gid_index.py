"""NCCL would use a RoCE address that does not lead to the other hosts.

Why it matters
    A RoCE port has several addresses (GIDs): of RoCE v1 and v2, link-local and routable. NCCL
    before 2.21 takes the first one unless told otherwise, which is of RoCE v1 or link-local; later
    ones look for RoCE v2 and IPv4, and take the first where there is none. The ranks meet over
    TCP, and the first collective ends with "NET/IB: Got completion with error 12", or hangs. So it
    goes with an NCCL_IB_GID_INDEX that was right on other hosts.
What to do
    With NCCL 2.21 and later leave NCCL_IB_GID_INDEX unset; where there is IPv6 only, set
    NCCL_IB_ADDR_FAMILY=AF_INET6. Before, set NCCL_IB_GID_INDEX to the RoCE v2 address with the
    port's IP address (show_gids, or /sys/class/infiniband/*/ports/*/gid_attrs/types), on all ranks.
"""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.machine.infiniband import ETHERNET, INFINIBAND, Port
from ddpcheck.machine.libraries import nccl_of_torch
from ddpcheck.measures.versions import version
from ddpcheck.measures.words import listed
from ddpcheck.network.rdma import Rdma, exactly, rdma, towards
from ddpcheck.network.roce import CHOOSES_GID, GID_INDEX, right_indexes, right_rule, used_gid

ADDRESS = "give the network interface of {ports} an IP address, as on the other hosts"
CHOOSES = "NCCL 2.21 and later choose the right one"
LEAVE = "nothing, if they carry no data of the job; to keep NCCL off them export NCCL_IB_HCA={hca}"
Ports = Mapping[int, list[Port]]


class Fault(StrEnum):
    """What is wrong with the address that NCCL would use on a port."""

    MISSING = "the RoCE address that NCCL would use does not exist"
    LACKED = "a port lacks the RoCE address that NCCL would use"
    POOR = "NCCL would use a RoCE address that is not routable"
    BESIDE = "RoCE ports beside InfiniBand have no address that leads to other hosts"


class Facts(msgspec.Struct, frozen=True):
    """The ports of a rank's host with their addresses, and the version of NCCL."""

    rdma: Rdma
    nccl: tuple[int, ...]


def probe(ctx: Context) -> Facts:
    """Return the RoCE ports of this host, if NCCL would use any."""
    if ctx.backend != "nccl" or not ctx.on_gpu:
        raise Skip("this run does not use NCCL")
    found = rdma(ctx.host, ctx.environ, with_gids=True)
    if found.unused:
        raise Skip(found.unused)
    if not found.active(ETHERNET):
        raise Skip("no active RoCE port")
    return Facts(found, version(nccl_of_torch()))


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return the ports whose address is not there, and those whose address is not routable."""
    if len({own.rdma.place for own in facts.values()}) == 1:
        return []
    good = {port.name for own in facts.values() for port in _roce(own) if _right(own, port)}
    bad: dict[Fault, dict[int, list[Port]]] = {}
    for rank, own in facts.items():
        for port in _roce(own):
            if fault := _fault(own, port, good):
                bad.setdefault(fault, {}).setdefault(rank, []).append(port)
    return [_finding(facts, fault, bad[fault]) for fault in Fault if fault in bad]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return what NCCL is told."""
    return ", ".join(sorted({_settings(own, "=") for own in facts.values()}))


def _roce(own: Facts) -> list[Port]:
    return own.rdma.active(ETHERNET)


def _right(own: Facts, *ports: Port) -> set[int]:
    return right_indexes((own.rdma.gid, port) for port in ports)


def _is_empty(own: Facts, port: Port) -> bool:
    # A table of which nothing can be read tells nothing.
    return bool(port.gids) and used_gid(port, own.rdma.gid, own.nccl) is None


def _fault(own: Facts, port: Port, good: set[str]) -> Fault | None:
    gid, others = used_gid(port, own.rdma.gid, own.nccl), own.rdma.active(INFINIBAND)
    is_poor = gid and not own.rdma.gid.leads_on(gid) and port.name in good
    if not (is_poor or _is_empty(own, port)):
        return None
    # A port that is not near any GPU may be left alone by NCCL; it cannot leave alone all ports.
    if len(others) > len(_roce(own)):
        return Fault.BESIDE
    is_sure = not others and all(_is_empty(own, each) for each in _roce(own))
    return Fault.POOR if gid else Fault.MISSING if is_sure else Fault.LACKED


def _finding(facts: Mapping[int, Facts], fault: Fault, bad: Ports) -> Finding:
    told = [_told(facts[rank], port) for rank, ports in bad.items() for port in ports]
    sure, mild = fault is Fault.MISSING, fault is Fault.BESIDE
    hca = exactly(facts[min(bad)].rdma.active(INFINIBAND))
    return Finding(
        title=fault.value,
        message=listed(dict.fromkeys(told)),
        fix=LEAVE.format(hca=hca) if mild else _fix(facts, bad),
        ranks=tuple(sorted(bad)),
        severity=Severity.ERROR if sure else Severity.INFO if mild else Severity.WARNING,
        confidence=Confidence.HIGH if sure else Confidence.MEDIUM,
    )


def _told(own: Facts, port: Port) -> str:
    gid = used_gid(port, own.rdma.gid, own.nccl)
    index = gid.index if gid else own.rdma.gid.index or 0
    what = f"GID {index} is {gid.address} ({gid.kind})" if gid else f"there is no GID {index}"
    nccl = ".".join(map(str, own.nccl))
    return f"{port.name} on {own.rdma.host}: {what}; {_settings(own, ' is ')}, NCCL is {nccl}"


def _settings(own: Facts, between: str) -> str:
    told = [f"{name}{between}{value}" for name, value in own.rdma.gid.settings().items()]
    return " and ".join(told) or f"{GID_INDEX} is not set"


def _fix(facts: Mapping[int, Facts], bad: Ports) -> str:
    places = [(facts[rank], port) for rank, ports in bad.items() for port in ports]
    if lacking := {port.name for own, port in places if not _right(own, port)}:
        return ADDRESS.format(ports=listed(sorted(lacking)))
    right = right_indexes((own.rdma.gid, p) for own in facts.values() for p in _roce(own))
    told = any(own.rdma.gid.index is not None for own, _ in places)
    chooses = all(own.nccl[:2] >= CHOOSES_GID for own in facts.values())
    whole = [p for own in facts.values() for p in _roce(own) if _right(own, p)]
    rule = right_rule(whole) if chooses else None
    if rule and not (told and right):
        return f"{towards(rule, [own.rdma for own, _ in places])}: {CHOOSES}"
    if right:
        return f"export {GID_INDEX}={min(right)} on all ranks"
    each = {f"{min(_right(o, p))} for {p.name} on {o.rdma.host}" for o, p in places}
    return f"set {GID_INDEX} on each host: {listed(sorted(each))}"
