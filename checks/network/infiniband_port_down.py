"""An InfiniBand or RoCE port is down on some hosts.

Why it matters
    NCCL leaves out a port that is not active, without a word. The ranks of that host then share
    the ports that are left, and every collective of the job waits for them; with no port left
    NCCL goes on over TCP sockets, many times slower, or cannot connect to the hosts that do not.
What to do
    Look at the port (ibstat, rdma link): its cable, its switch port, and for InfiniBand the
    subnet manager, without which a port that is connected stays in INIT. Take the host out of the
    job until the port is ACTIVE.
"""

from collections.abc import Iterator, Mapping

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.machine.infiniband import INFINIBAND, Port
from ddpcheck.measures.words import listed
from ddpcheck.network.rdma import Rdma, rdma

FIX = "look at the port on {hosts} (ibstat, rdma link): its cable, its switch port{manager}"
MANAGER = "; and whether a subnet manager runs (sminfo)"


class Facts(msgspec.Struct, frozen=True):
    """The ports of a rank's host."""

    rdma: Rdma


def probe(ctx: Context) -> Facts:
    """Return the ports of this host, if NCCL would use any."""
    if ctx.backend != "nccl" or not ctx.on_gpu:
        raise Skip("this run does not use NCCL")
    found = rdma(ctx.host, ctx.environ)
    if found.unused:
        raise Skip(found.unused)
    if not found.chosen():
        raise Skip("no InfiniBand or RoCE device")
    return Facts(found)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return the ports that are down on some hosts and up on others, or wait for a manager."""
    hosts = {own.rdma.place: own.rdma for own in facts.values()}
    if len(hosts) == 1:
        return []
    active = {port.name for host in hosts.values() for port in host.chosen() if port.is_active}
    down = {
        place: [port for port in host.chosen() if _is_down(port, active)]
        for place, host in hosts.items()
    }
    waiting = {
        place: [port for port in host.chosen() if _waits(port)]
        for place, host in hosts.items()
        if not any(port.is_active for port in host.chosen())
    }
    return [
        *_findings(facts, hosts, down, "a port is down that is up on other hosts"),
        *_findings(
            facts,
            hosts,
            {place: ports for place, ports in waiting.items() if not down[place]},
            "no subnet manager has set up the ports",
        ),
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many ports of all hosts are active."""
    hosts = {own.rdma.place: own.rdma for own in facts.values()}
    ports = [port for host in hosts.values() for port in host.chosen()]
    return f"{sum(port.is_active for port in ports)} of {len(ports)} ports active"


def _is_down(port: Port, active: set[str]) -> bool:
    return port.usable and not port.is_active and port.name in active


def _waits(port: Port) -> bool:
    return port.usable and (port.layer, port.state, port.link) == (INFINIBAND, "INIT", "LinkUp")


def _findings(
    facts: Mapping[int, Facts],
    hosts: Mapping[str, Rdma],
    bad: Mapping[str, list[Port]],
    title: str,
) -> Iterator[Finding]:
    guilty = {place: ports for place, ports in bad.items() if ports}
    if guilty:
        told = [
            f"{port.name} on {hosts[place].host} is {port.state} ({port.link})"
            for place, ports in guilty.items()
            for port in ports
        ]
        waits = any(_waits(port) for ports in guilty.values() for port in ports)
        yield Finding(
            title=title,
            message=f"NCCL leaves these out: {listed(told)}",
            fix=FIX.format(
                hosts=listed(sorted(hosts[place].host for place in guilty)),
                manager=MANAGER if waits else "",
            ),
            ranks=tuple(sorted(r for r, own in facts.items() if own.rdma.place in guilty)),
            severity=Severity.WARNING,
            confidence=Confidence.HIGH,
        )
