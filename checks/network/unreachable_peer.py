"""A host cannot connect to another host of the job.

Why it matters
    gloo and NCCL open connections between all hosts, to ports that the kernel picks as it likes.
    Where a firewall, a security group or a sidecar lets only some ports through, the ranks meet
    at MASTER_PORT, and then hang until a timeout that names neither the host nor the port.
What to do
    Let all TCP ports of net.ipv4.ip_local_port_range through between the hosts of the job: look
    at the firewall of the host that is named (iptables -S, nft list ruleset), and at its security
    group. Where several networks lead there, name the right one: GLOO_SOCKET_IFNAME and
    NCCL_SOCKET_IFNAME. In Kubernetes, keep sidecars out: sidecar.istio.io/inject: "false".
"""

from collections import Counter
from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Finding
from ddpcheck.measures.words import listed
from ddpcheck.network.culprits import Blame, Pair, Way, blames
from ddpcheck.network.echo import Listener, patient_visit
from ddpcheck.network.own_address import here
from ddpcheck.network.reach import Reach, Reached
from ddpcheck.network.roster import Here, call_together, ephemeral_ports, visit_all

ID = "network/unreachable-peer"
# TCP sends a lost SYN again after 1 s and after 3 s (RFC 6298, 2.1 and 5.5): one may get lost.
CONNECT_S = 3.5
# A rank that was stopped for a moment, or is busy, answers late; a sidecar never does.
ANSWER_S = 4.0
TITLES = {
    Way.BOTH: "a host is cut off from the others",
    Way.TOWARDS: "a host cannot be reached by the others",
    Way.OUTWARD: "a host cannot reach the others",
    Way.BETWEEN: "hosts cannot reach each other",
}
# Kinds that are not here have no use: an address needs no name server.
HOW = {
    Reached.REFUSED: "refused, though a rank listens there",
    Reached.FILTERED: f"no answer within {CONNECT_S:g} s",
    Reached.NO_ROUTE: "no route, or a firewall that prohibits it",
    Reached.CLOSED: "accepted and closed at once, though not by the rank that listens there",
    Reached.SILENT: "accepted and never answered, though not by the rank that listens there",
    Reached.OTHER: "answered by something else than the rank that listens there",
}
STRANGERS = {Reached.CLOSED, Reached.SILENT, Reached.OTHER}
OPEN_PORTS = (
    "let all TCP ports of net.ipv4.ip_local_port_range ({ports}) through between all hosts, as "
    "gloo and NCCL need: look at iptables -S, nft list ruleset and the security group of {hosts}"
)
NO_SIDECAR = (
    "keep proxies and sidecars away from the job's ports on {hosts}: in Kubernetes annotate the "
    'pods with sidecar.istio.io/inject: "false"'
)
NAME_INTERFACE = (
    "name the interface that leads to the other hosts on {hosts}: export GLOO_SOCKET_IFNAME=... "
    "NCCL_SOCKET_IFNAME=... (ip -brief address lists them)"
)


class Attempt(msgspec.Struct, frozen=True):
    """How connecting to the listener of one other host ended; ``place`` names the host."""

    host: str
    place: str
    address: str
    kind: Reached


class Facts(msgspec.Struct, frozen=True):
    """Where a rank is, and what it tried as the first of its host."""

    here: Here
    ports: str
    attempts: tuple[Attempt, ...] = ()


def probe(ctx: Context) -> Facts:
    """Connect to the listeners of the other hosts, if this is the first rank of its host."""
    ctx.require_meeting()
    if ctx.store is None or ctx.world_size == 1:
        raise Skip("there is no other rank")
    own = here(ctx.host, ctx.backend, ctx.environ)
    roster = call_together(ctx.store, ID, ctx.world_size, own)
    if roster.hosts_count == 1:
        raise Skip("all ranks are on one host")
    tried = visit_all(_visit, roster.peers)
    attempts = [Attempt(s.host, s.place, s.listener.address, reach.kind) for s, reach in tried]
    return Facts(own, ephemeral_ports(), tuple(attempts))


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return one finding for all hosts to which, or from which, there is no way; one for pairs."""
    tried = {(own.here.place, each.place): each for own in facts.values() for each in own.attempts}
    failed = {pair: each for pair, each in tried.items() if each.kind is not Reached.OPEN}
    return [_finding(facts, failed, blame) for blame in blames(failed, tried)]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many pairs of hosts were tried."""
    attempts = [each for own in facts.values() for each in own.attempts]
    opened = sum(each.kind is Reached.OPEN for each in attempts)
    hosts = len({own.here.place for own in facts.values()})
    return f"{hosts} hosts, {opened} of {len(attempts)} connections between them opened"


def _visit(listener: Listener) -> Reach:
    return patient_visit(listener, CONNECT_S, ANSWER_S)


def _finding(facts: Mapping[int, Facts], failed: Mapping[Pair, Attempt], blame: Blame) -> Finding:
    ranks = sorted(rank for rank, own in facts.items() if own.here.place in blame.places)
    attempts = {pair: failed[pair] for pair in blame.pairs}
    names = {own.here.place: own.here.host for own in facts.values()}
    hosts = sorted(names[place] for place in blame.places if place in names)
    return Finding(
        title=TITLES[blame.way],
        message=_told(names, attempts),
        fix=_fix(facts, attempts).format(
            hosts=listed(hosts), ports=next(iter(facts.values())).ports
        ),
        ranks=tuple(ranks),
    )


def _told(names: Mapping[str, str], attempts: Mapping[Pair, Attempt]) -> str:
    ways: dict[Reached, list[str]] = {}
    for (begin, _), each in attempts.items():
        ways.setdefault(each.kind, []).append(f"{names[begin]} to {each.host} ({each.address})")
    return "; ".join(f"{listed(pairs)}: {HOW[kind]}" for kind, pairs in ways.items())


def _fix(facts: Mapping[int, Facts], attempts: Mapping[Pair, Attempt]) -> str:
    uses = Counter({own.here.place: own.here.address for own in facts.values()}.values())
    if any(uses[each.address] > 1 or _is_loopback(each.address) for each in attempts.values()):
        return NAME_INTERFACE
    kinds = {each.kind for each in attempts.values()}
    return NO_SIDECAR if kinds <= STRANGERS else OPEN_PORTS


def _is_loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"
