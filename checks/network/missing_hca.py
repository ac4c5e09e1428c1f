"""NCCL finds no InfiniBand or RoCE device where it is told to, or where other hosts have one.

Why it matters
    When NCCL_IB_HCA names devices that do not exist, or a container is not shown any, NCCL goes
    on over TCP sockets without a word, many times slower. When only some hosts do, the others
    cannot connect to them.
What to do
    Name the devices as the host has them (ibstat -l, rdma link), or leave NCCL_IB_HCA unset. Show
    containers the devices: docker run --device=/dev/infiniband --ulimit memlock=-1, and in
    Kubernetes ask for the RDMA resource of the device plugin.
"""

from collections.abc import Iterator, Mapping

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.measures.words import listed
from ddpcheck.network.rdma import Rdma, idle_names, rdma

NAME = "name the devices that there are in NCCL_IB_HCA, or unset it: {devices}"
SHOW = (
    "show the devices to the container on {hosts}: --device=/dev/infiniband --ulimit memlock=-1, "
    "or in Kubernetes the device plugin's RDMA resource"
)
LOAD = "look whether {hosts} have the adapters (lspci) and their drivers (rdma link)"


class Facts(msgspec.Struct, frozen=True):
    """The ports of a rank's host, and what NCCL is told to use."""

    rdma: Rdma


def probe(ctx: Context) -> Facts:
    """Return the ports of this host, if NCCL may use them."""
    if ctx.backend != "nccl" or not ctx.on_gpu:
        raise Skip("this run does not use NCCL")
    found = rdma(ctx.host, ctx.environ)
    if found.unused:
        raise Skip(found.unused)
    return Facts(found)


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
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many devices the hosts have for NCCL."""
    hosts = {own.rdma.place: own.rdma for own in facts.values()}
    counts = {len({p.device for p in host.chosen() if p.usable}) for host in hosts.values()}
    return f"{' or '.join(map(str, sorted(counts)))} devices a host"


def _idle(own: Rdma) -> list[str]:
    return idle_names(own.hca, own.ports)


def _misnamed(ranks: Mapping[int, Rdma]) -> Iterator[Finding]:
    if ranks:
        told = {f"NCCL_IB_HCA={own.hca} on {own.host}: {_means(own)}" for own in ranks.values()}
        devices = {f"{_devices(own)} on {own.host}" for own in ranks.values()}
        yield _warning(
            ranks,
            "NCCL_IB_HCA names devices that do not exist",
            listed(sorted(told)),
            NAME.format(devices=listed(sorted(devices))),
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


def _warning(ranks: Mapping[int, Rdma], title: str, message: str, fix: str) -> Finding:
    return Finding(
        title=title,
        message=message,
        fix=fix,
        ranks=tuple(sorted(ranks)),
        severity=Severity.WARNING,
        confidence=Confidence.HIGH,
    )
