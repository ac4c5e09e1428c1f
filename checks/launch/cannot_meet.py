"""The ranks cannot meet at MASTER_ADDR:MASTER_PORT.

Why it matters
    Without a meeting there is no process group. torch waits for it without end when something
    else answers at that port, or gives up on one rank and hangs on the others.

What to do
    MASTER_ADDR must be the address of rank 0's host, as the other hosts see it, and MASTER_PORT
    a free port there that no firewall closes. Two jobs on one host need two ports.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Finding
from ddpcheck.network.reach import Reached

ANOTHER_PORT = "set another MASTER_PORT for all ranks"
# Any connection of any program may be given a port of that range.
TAKEN = (
    f"end that process if it is left over, or {ANOTHER_PORT}, outside the range in "
    "/proc/sys/net/ipv4/ip_local_port_range"
)
PROXY = (
    "keep the proxy or sidecar away from port {port}: with Istio annotate all pods of the job with "
    f"sidecar.istio.io/inject: 'false'; if another program listens at {{address}}, {ANOTHER_PORT}"
)
FIXES: dict[str, str] = {
    Reached.REFUSED: "start rank 0 on the host of {address}, and hand one MASTER_PORT to all ranks: "
    "here it is {port}, and rank 0 may have been told another",
    Reached.FILTERED: "open TCP port {port} of {address} to {host} in every firewall between them "
    "(iptables, security groups, network policies), if rank 0's host is up",
    Reached.NO_ROUTE: "give {host} a route to {address}, or set MASTER_ADDR to an address of rank "
    "0's host in a network that all hosts share; a firewall there must let port {port} through",
    Reached.UNRESOLVED: "set MASTER_ADDR to the IP address of rank 0's host, or to a name that "
    "{host} can look up (DNS, /etc/hosts): {address} is none",
    Reached.SILENT: PROXY,
    Reached.CLOSED: PROXY,
    "absent": "start the same command on every node, with one --nnodes, --master-addr and --master-port "
    "and a --node-rank of its own, and see that port {port} of {address} is open to it",
    Reached.OTHER: f"{ANOTHER_PORT}, or end what has {{port}} on {{address}}",
}
UNKNOWN = (
    "check that MASTER_ADDR is rank 0's host, that rank 0 was started, and that MASTER_PORT is free "
    "there and open from here"
)


class Facts(msgspec.Struct, frozen=True):
    """Where the rank met the others, after how many wall seconds, or why it could not.

    ``kind`` is how the attempt ended, ``owner`` says who holds the port; '' is not known.
    """

    place: str
    duration_s: float
    error: str
    host: str = ""
    kind: str = ""
    owner: str = ""


def probe(ctx: Context) -> Facts:
    """Return how the meeting went; a rank that can tell the others has met them."""
    met = ctx.meeting
    if met is None:
        raise Skip("the ranks did not try to meet")
    return Facts(met.place, met.duration_s, met.error, ctx.host, met.kind, met.owner)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for the ranks that could not meet the others."""
    apart = {rank: fact for rank, fact in sorted(facts.items()) if fact.error}
    if not apart:
        return []
    first = apart[min(apart)]
    return [
        Finding(
            title=f"no meeting at {first.place}",
            message=first.error,
            fix=_fix(first),
            ranks=tuple(apart),
            evidence={
                "place": first.place,
                "duration_s": first.duration_s,
                "cause": first.kind,
                "owner": first.owner,
            },
        )
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how long the slowest rank took to meet the others, if all did."""
    if any(fact.error for fact in facts.values()):
        return ""
    slowest = max(fact.duration_s for fact in facts.values())
    return f"{len(facts)} ranks met in {slowest:.1f} s"


def _fix(own: Facts) -> str:
    address, _, port = own.place.rpartition(":")
    told = TAKEN if own.owner else FIXES.get(own.kind, UNKNOWN)
    return told.format(address=address, port=port, host=own.host or "this host")
