"""NCCL would use a RoCE address that does not lead to the other hosts.

Why it matters
    A RoCE port has several addresses (GIDs): of RoCE v1 and v2, link-local and routable. NCCL
    before 2.21 takes the first one unless told otherwise, which is of RoCE v1 or link-local: the
    ranks meet over TCP, and the first collective ends with "NET/IB: Got completion with error
    12", or hangs. So it goes with an NCCL_IB_GID_INDEX that was right on other hosts.
What to do
    Set NCCL_IB_GID_INDEX to the RoCE v2 address with the port's IP address (show_gids, or
    /sys/class/infiniband/*/ports/*/gid_attrs/types), the same on all ranks; or leave it unset
    with NCCL 2.21 and later.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.machine.infiniband import ETHERNET, Port
from ddpcheck.machine.libraries import nccl_of_torch
from ddpcheck.measures.versions import version
from ddpcheck.measures.words import listed
from ddpcheck.network.rdma import CHOOSES_GID, GID_INDEX, Rdma, rdma, used_gid

ADDRESS = "give the network interface of {ports} an IP address, as on the other hosts"
UNSET = f"unset {GID_INDEX}: NCCL 2.21 and later choose the right one"


class Facts(msgspec.Struct, frozen=True):
    """The ports of a rank's host with their addresses, and the version of NCCL."""

    rdma: Rdma
    nccl: tuple[int, ...]


def probe(ctx: Context) -> Facts:
    """Return the RoCE ports of this host, if NCCL would use any."""
    if ctx.backend != "nccl" or not ctx.on_gpu:
        raise Skip("this run does not use NCCL")
    found = rdma(ctx.host, ctx.environ)
    if found.unused:
        raise Skip(found.unused)
    if not _roce(found):
        raise Skip("no active RoCE port")
    return Facts(found, version(nccl_of_torch()))


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return the ports whose address is not there, and those whose address is not routable."""
    if len({own.rdma.place for own in facts.values()}) == 1:
        return []
    good = {p.name for own in facts.values() for p in _roce(own.rdma) if _right_indexes([p])}
    empty: dict[int, list[Port]] = {}
    poor: dict[int, list[Port]] = {}
    for rank, own in facts.items():
        for port in _roce(own.rdma):
            gid = used_gid(port, own.rdma.gid_index, own.nccl)
            if gid is None and port.gids:
                empty.setdefault(rank, []).append(port)
            elif gid and not gid.is_routable and port.name in good:
                poor.setdefault(rank, []).append(port)
    # A port that is not near any GPU may be left alone by NCCL; it cannot leave alone all ports.
    sure = {rank: ports for rank, ports in empty.items() if ports == _roce(facts[rank].rdma)}
    likely = {rank: ports for rank, ports in empty.items() if rank not in sure}
    return [
        *_finding(facts, sure, "the RoCE address that NCCL would use does not exist", sure=True),
        *_finding(facts, likely, "a port lacks the RoCE address that NCCL would use", sure=False),
        *_finding(facts, poor, "NCCL would use a RoCE address that is not routable", sure=False),
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return which indexes are set."""
    told = {own.rdma.gid_index for own in facts.values()}
    return ", ".join("not set" if i is None else f"{GID_INDEX}={i}" for i in sorted(told, key=str))


def _roce(own: Rdma) -> list[Port]:
    return [port for port in own.chosen() if port.layer == ETHERNET and port.is_active]


def _right_indexes(ports: Iterable[Port]) -> set[int]:
    """Return the indexes that lead to a routable address on all of these ports; IPv4 if any."""
    routable = [[gid for gid in port.gids if gid.is_routable] for port in ports]
    old = [{gid.index for gid in gids if ":" not in gid.address} for gids in routable]
    every = [{gid.index for gid in gids} for gids in routable]
    return set.intersection(*old) or set.intersection(*every)


def _finding(
    facts: Mapping[int, Facts], bad: Mapping[int, list[Port]], title: str, *, sure: bool
) -> Iterator[Finding]:
    if bad:
        told = [_told(facts[rank], port) for rank, ports in bad.items() for port in ports]
        yield Finding(
            title=title,
            message=listed(dict.fromkeys(told)),
            fix=_fix(facts, bad),
            ranks=tuple(sorted(bad)),
            severity=Severity.ERROR if sure else Severity.WARNING,
            confidence=Confidence.HIGH if sure else Confidence.MEDIUM,
        )


def _told(own: Facts, port: Port) -> str:
    index, gid = own.rdma.gid_index, used_gid(port, own.rdma.gid_index, own.nccl)
    is_set = "is not set" if index is None else f"is {index}"
    what = f"GID {gid.index} is {gid.address} ({gid.kind})" if gid else "there is no such GID"
    nccl = ".".join(map(str, own.nccl))
    return f"{port.name} on {own.rdma.host}: {what}; {GID_INDEX} {is_set}, NCCL is {nccl}"


def _fix(facts: Mapping[int, Facts], bad: Mapping[int, list[Port]]) -> str:
    lacking = [p for ports in bad.values() for p in ports if not _right_indexes([p])]
    if lacking:
        return ADDRESS.format(ports=listed(sorted({port.name for port in lacking})))
    right = _right_indexes([p for own in facts.values() for p in _roce(own.rdma)])
    if right:
        return f"export {GID_INDEX}={min(right)} on all ranks"
    if all(own.nccl[:2] >= CHOOSES_GID for own in facts.values()):
        return UNSET
    told = {
        f"{min(_right_indexes([port]))} for {port.name} on {facts[rank].rdma.host}"
        for rank, ports in bad.items()
        for port in ports
    }
    return f"set {GID_INDEX} on each host: {listed(sorted(told))}"
