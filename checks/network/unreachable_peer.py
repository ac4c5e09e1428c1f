"""A host cannot connect to another host of the job.

Why it matters
    gloo and NCCL open connections between all hosts, to ports that the kernel picks as it likes.
    Where a firewall, a security group or a sidecar lets only some ports through, or where they use
    a network that does not join the hosts, the ranks meet at MASTER_PORT, and then hang until a
    timeout that names neither the host nor the port. NCCL uses all interfaces that it is not told
    to leave out. gloo connects from the higher address to the lower one: the other way is no error.
What to do
    Let all TCP ports of net.ipv4.ip_local_port_range through between the hosts of the job: look
    at the firewall of the host that is named (iptables -S, nft list ruleset), and at its security
    group. Where several networks lead there, name the right one: GLOO_SOCKET_IFNAME and
    NCCL_SOCKET_IFNAME. In Kubernetes, keep sidecars out: sidecar.istio.io/inject: "false".
"""

from collections.abc import Collection, Iterator, Mapping

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.measures.words import listed
from ddpcheck.network.attempts import STRANGERS, Attempt, Hosts, Tried, attempts_at, in_words
from ddpcheck.network.culprits import Blame, Way, blames
from ddpcheck.network.own_address import here_with_all
from ddpcheck.network.roster import Here, call_together, ephemeral_ports
from ddpcheck.network.standing import Standing, export, standing, variable

ID = "network/unreachable-peer"
TITLES = {
    Way.BOTH: "a host is cut off from the others",
    Way.TOWARDS: "a host cannot be reached by the others",
    Way.OUTWARD: "a host cannot reach the others",
    Way.BETWEEN: "hosts cannot reach each other",
}
OPEN_PORTS = (
    "let all TCP ports of net.ipv4.ip_local_port_range ({ports}) through between all hosts, as "
    "gloo and NCCL need: look at iptables -S, nft list ruleset, ip route get ADDRESS and the "
    "security group of {hosts}"
)
NO_SIDECAR = (
    "keep proxies and sidecars away from the job's ports on {hosts}: in Kubernetes annotate the "
    'pods with sidecar.istio.io/inject: "false"'
)
NOT_NEEDED = {
    "gloo": "; gloo connects the other way, from the higher address to the lower",
    "nccl": "; NCCL uses as many interfaces as the host with the fewest, and may do without",
}


class Facts(msgspec.Struct, frozen=True):
    """Where a rank is, and what it tried as the first of its host."""

    here: Here
    ports: str
    standing: Standing | None = None
    attempts: tuple[Attempt, ...] = ()


def probe(ctx: Context) -> Facts:
    """Connect to the listeners of the other hosts, if this is the first rank of its host."""
    ctx.require_meeting()
    if ctx.store is None or ctx.world_size == 1:
        raise Skip("there is no other rank")
    found = standing(ctx.host, ctx.backend, ctx.environ)
    own = here_with_all(ctx.host, found)
    roster = call_together(ctx.store, ID, ctx.world_size, own)
    if roster.hosts_count == 1:
        raise Skip("all ranks are on one host")
    return Facts(own, ephemeral_ports(), found, attempts_at(roster.peers))


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return one finding for all hosts to which, or from which, there is no way; one for pairs."""
    tried = {
        (own.here.place, place): [each for each in own.attempts if each.place == place]
        for own in facts.values()
        for place in {each.place for each in own.attempts}
    }
    hosts = Hosts({own.here.place: own.standing for own in facts.values() if own.standing})
    used = hosts.used(tried)
    failed = {p: bad for p, each in used.items() if (bad := [e for e in each if not e.is_open])}
    return [_finding(facts, hosts, tried, failed, each) for each in blames(failed, used)]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many pairs of hosts were tried."""
    attempts = [each for own in facts.values() for each in own.attempts]
    opened = sum(each.is_open for each in attempts)
    hosts = len({own.here.place for own in facts.values()})
    return f"{hosts} hosts, {opened} of {len(attempts)} connections between them opened"


def _finding(
    facts: Mapping[int, Facts], hosts: Hosts, tried: Tried, failed: Tried, blame: Blame
) -> Finding:
    names = {own.here.place: own.here.host for own in facts.values()}
    bad = {pair: failed[pair] for pair in blame.pairs}
    needed = any(hosts.need(each, begin) for (begin, _), told in bad.items() for each in told)
    better = {
        each.place: way
        for pair, told in bad.items()
        for each in told
        if (way := hosts.better_way(each, tried[pair]))
    }
    ways = "".join(f"; {names[place]} is reached by {way}" for place, way in better.items())
    return Finding(
        title=TITLES[blame.way],
        message=in_words(names, bad) + ways + ("" if needed else NOT_NEEDED[hosts.backend]),
        fix="; ".join(_fixes(facts, better, bad, blame)),
        ranks=tuple(sorted(r for r, own in facts.items() if own.here.place in blame.places)),
        severity=Severity.ERROR if needed else Severity.WARNING,
        confidence=Confidence.HIGH if needed else Confidence.MEDIUM,
    )


def _fixes(
    facts: Mapping[int, Facts], better: Collection[str], bad: Tried, blame: Blame
) -> Iterator[str]:
    there = {own.here.place: own for own in facts.values()}
    known = [own for place in better if (own := there[place].standing)]
    if known:
        yield export(known, variable(known[0].backend))
    kinds = {each.kind for told in bad.values() for each in told if each.place not in better}
    if kinds:
        text = NO_SIDECAR if kinds <= STRANGERS else OPEN_PORTS
        hosts = listed(sorted(there[place].here.host for place in blame.places if place in there))
        yield text.format(hosts=hosts, ports=next(iter(facts.values())).ports)
