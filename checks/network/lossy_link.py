"""The way between two hosts loses packets, large ones above all, or is very long.

Why it matters
    One packet lost in a hundred makes TCP many times slower, and every collective waits for the
    slowest way. Where large packets get lost and small ones pass (an MTU too large for a tunnel
    or a switch on the way), the ranks meet, and the first gradient never arrives: a hang without
    an error.
What to do
    Look at the drops and errors of the interfaces (ip -s link, ethtool -S eth0), at cables and
    switch ports. When large messages get lost, find the largest packet that passes (ping -M do
    -s 1472 HOST) and set the MTU to it on all hosts (ip link set dev eth0 mtu 1500).
"""

from collections.abc import Collection, Iterator, Mapping

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.measures.words import listed
from ddpcheck.network.culprits import Pair, blames
from ddpcheck.network.links import Link, is_lossy, measured_links, trips_s
from ddpcheck.network.own_address import here
from ddpcheck.network.roster import Here, call_together

ID = "network/lossy-link"
# Hosts of one datacenter are some 0.5 ms from each other, zones of one region up to 2 ms.
LONG_S = 0.005
LONG_RATIO = 10.0
FIX_GONE = (
    "find the largest packet that passes (ping -M do -s SIZE HOST; 1472 + 28 bytes are an MTU of "
    "1500), and set that MTU on all hosts: ip link set dev INTERFACE mtu 1500"
)
FIX_LOSSY = (
    "look at drops and errors on {hosts} (ip -s link, ethtool -S INTERFACE), and at their cables "
    "and switch ports"
)
FIX_LONG = "run on hosts that are near each other, or look at the route to {hosts} (mtr -n HOST)"


class Facts(msgspec.Struct, frozen=True):
    """Where a rank is, and the links it measured as the first of its host."""

    here: Here
    links: tuple[Link, ...] = ()


def probe(ctx: Context) -> Facts:
    """Talk to the other hosts, one after the other, if this is the first rank of its host."""
    ctx.require_meeting()
    if ctx.store is None or ctx.world_size == 1:
        raise Skip("there is no other rank")
    own = here(ctx.host, ctx.backend, ctx.environ)
    roster = call_together(ctx.store, ID, ctx.world_size, own)
    if roster.hosts_count == 1:
        raise Skip("all ranks are on one host")
    return Facts(own, tuple(measured_links(roster.peers, ctx.clock)))


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return which links lose all large packets, which lose some, and which are long."""
    talks = {
        (own.here.place, link.place): link.talk
        for own in facts.values()
        for link in own.links
        if link.talk.reach.is_open
    }
    apart_s = trips_s(talks)
    long_s = max(LONG_S, LONG_RATIO * min(apart_s.values(), default=0.0))
    gone = {
        pair: "nothing of 1 MiB arrives, though small messages do; packets have up to "
        f"{told.path_mtu_bytes} bytes"
        for pair, told in talks.items()
        if told.is_gone
    }
    lossy = {
        pair: f"{told.retransmitted_count} of {told.sent_count} packets had to be sent again"
        for pair, told in talks.items()
        if is_lossy(told) and pair not in gone
    }
    long = {
        pair: f"round trips take {1e3 * trip_s:.1f} ms, limit {1e3 * long_s:.1f} ms"
        for pair, trip_s in apart_s.items()
        if trip_s > long_s
    }
    return [
        *_findings(facts, talks, gone, "large messages get lost between hosts", FIX_GONE),
        *_findings(facts, talks, lossy, "packets get lost between hosts", FIX_LOSSY),
        *_findings(facts, talks, long, "hosts are far from each other", FIX_LONG),
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how long the shortest and the longest round trips are."""
    told = [link.talk.round_trip_min_s for own in facts.values() for link in own.links]
    known_ms = [1e3 * trip_s for trip_s in told if trip_s]
    if not known_ms:
        return "no link could be measured"
    return f"{len(known_ms)} links, round trips {min(known_ms):.2f} to {max(known_ms):.2f} ms"


def _findings(
    facts: Mapping[int, Facts],
    tried: Collection[Pair],
    bad: Mapping[Pair, str],
    title: str,
    fix: str,
) -> Iterator[Finding]:
    names = {own.here.place: own.here.host for own in facts.values()}
    sure = fix is FIX_GONE
    for blame in blames(bad, tried):
        told = [f"{names[a]} to {names.get(b, b)}: {bad[a, b]}" for a, b in blame.pairs]
        yield Finding(
            title=title,
            message=listed(told),
            fix=fix.format(hosts=listed(sorted(names.get(b, b) for b in blame.places))),
            ranks=tuple(sorted(r for r, own in facts.items() if own.here.place in blame.places)),
            severity=Severity.ERROR if sure else Severity.WARNING,
            confidence=Confidence.HIGH if sure else Confidence.MEDIUM,
        )
