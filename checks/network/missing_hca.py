"""NCCL finds no InfiniBand or RoCE device where it is told to, or where other hosts have one.

Why it matters
    When NCCL_IB_HCA names devices that do not exist, a container is not shown any, or an image has
    no libibverbs, NCCL goes on over TCP sockets without a word, many times slower. When only some
    hosts do, the others cannot connect to them.
What to do
    Name the devices as the host has them (ibstat -l, rdma link), or leave NCCL_IB_HCA unset. Show
    containers the devices: docker run --device=/dev/infiniband --ulimit memlock=-1, and in
    Kubernetes ask for the RDMA resource of the device plugin. Install libibverbs in the image
    (Debian: libibverbs1 and ibverbs-providers, Red Hat: libibverbs).
"""

from collections.abc import Iterator, Mapping

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.measures.words import listed
from ddpcheck.network.rdma import HCA, Rdma, idle_names, rdma
from ddpcheck.variables.nccl_conf import taken_back

NAME = "name the devices that there are in NCCL_IB_HCA, or {undo}: {devices}"
SHOW = (
    "show the devices to the container on {hosts}: --device=/dev/infiniband --ulimit memlock=-1, "
    "or in Kubernetes the device plugin's RDMA resource"
)
LOAD = "look whether {hosts} have the adapters (lspci) and their drivers (rdma link)"
INSTALL = (
    "install libibverbs where the ranks run on {hosts} (Debian: libibverbs1 ibverbs-providers, Red "
    "Hat: libibverbs), or let LD_LIBRARY_PATH lead to libibverbs.so.1"
)


class Facts(msgspec.Struct, frozen=True):
    """The ports of a rank's host, and what NCCL is told to use.

    ``is_fabric`` is False where the library is missing, and nothing tells that there is a network
    made for RDMA.
    """

    rdma: Rdma
    is_fabric: bool = True


def probe(ctx: Context) -> Facts:
    """Return the ports of this host, if NCCL may use them."""
    if ctx.backend != "nccl" or not ctx.on_gpu:
        raise Skip("this run does not use NCCL")
    found = rdma(ctx.host, ctx.environ)
    if found.unused:
        raise Skip(found.unused)
    is_fabric = found.has_library or rdma(ctx.host, ctx.environ, with_gids=True).is_fabric
    return Facts(found, is_fabric)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return the names that mean no device, and the hosts without a device that others have."""
    ranks = {rank: own.rdma for rank, own in facts.items()}
    if len({own.place for own in ranks.values()}) == 1:
        return []
    misnamed = {rank: own for rank, own in ranks.items() if own.ports and _idle(own)}
    some = any(port.usable for own in ranks.values() for port in own.ports)
    without = {r: own for r, own in ranks.items() if some and not any(p.usable for p in own.ports)}
    hidden = {rank: own for rank, own in without.items() if own.ports}
    absent = {rank: own for rank, own in without.items() if not own.ports}
    return [
        *_misnamed(misnamed),
        *_finding(hidden, "devices are not shown to the process", SHOW, "/dev/infiniband lacks"),
        *_finding(absent, "a host has no device that others have", LOAD, "there is no device on"),
        *_without_library({r: own for r, own in facts.items() if not own.rdma.has_library}),
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many devices the hosts have for NCCL."""
    hosts = {own.rdma.place: own.rdma for own in facts.values()}
    counts = {_count(host) for host in hosts.values()}
    return f"{' or '.join(map(str, sorted(counts)))} devices a host"


def _count(own: Rdma) -> int:
    return len({port.device for port in own.chosen() if port.usable and own.has_library})


def _idle(own: Rdma) -> list[str]:
    return idle_names(own.hca, own.ports)


def _misnamed(ranks: Mapping[int, Rdma]) -> Iterator[Finding]:
    if ranks:
        told = {f"NCCL_IB_HCA={own.hca} on {own.host}: {_means(own)}" for own in ranks.values()}
        devices = {f"{_devices(own)} on {own.host}" for own in ranks.values()}
        undo = taken_back((HCA, own.origins.get(HCA, "")) for own in ranks.values())
        yield _warning(
            ranks,
            "NCCL_IB_HCA names devices that do not exist",
            listed(sorted(told)),
            NAME.format(undo=undo, devices=listed(sorted(devices))),
        )


def _means(own: Rdma) -> str:
    idle = f"no device is called {listed(_idle(own))}"
    return idle if own.chosen() else f"{idle}, so NCCL uses TCP sockets"


def _devices(own: Rdma) -> str:
    return listed(dict.fromkeys(port.device for port in own.ports))


def _finding(ranks: Mapping[int, Rdma], title: str, fix: str, told: str) -> Iterator[Finding]:
    if ranks:
        hosts = listed(sorted({own.host for own in ranks.values()}))
        what = {_devices(own) for own in ranks.values()} - {""}
        lacking = f"{told} {listed(sorted(what))} on" if what else told
        message = f"{lacking} {hosts}, and NCCL uses TCP sockets there"
        yield _warning(ranks, title, message, fix.format(hosts=hosts))


def _without_library(facts: Mapping[int, Facts]) -> Iterator[Finding]:
    """Yield whose ports are idle for want of a library; a note where they may not be for RDMA."""
    told = "there is no libibverbs for NCCL to use"
    for severity, is_fabric in (Severity.WARNING, True), (Severity.INFO, False):
        ranks = {rank: own.rdma for rank, own in facts.items() if own.is_fabric is is_fabric}
        for each in _finding(ranks, "NCCL does not find libibverbs", INSTALL, told):
            yield msgspec.structs.replace(each, severity=severity)


def _warning(ranks: Mapping[int, Rdma], title: str, message: str, fix: str) -> Finding:
    return Finding(
        title=title,
        message=message,
        fix=fix,
        ranks=tuple(sorted(ranks)),
        severity=Severity.WARNING,
        confidence=Confidence.HIGH,
    )
