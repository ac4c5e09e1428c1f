"""The interfaces of one network do not agree on the size of packets (MTU).

Why it matters
    Hosts of one network segment must have one MTU. A host with a smaller one slows all that talk
    to it down, and drops what is too large and not TCP; a host with a larger one than the switch
    sends packets that get lost, and hangs with the first large message.
What to do
    Set one MTU on all hosts (ip link set dev eth0 mtu 9000), which the switches must have, too;
    for IPoIB, one mode (datagram or connected). Make it last in the network configuration.
"""

from collections import Counter
from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.measures.words import listed
from ddpcheck.network.own_address import Wire, own_wire
from ddpcheck.network.roster import place_of

FIX = (
    "set one MTU on all hosts, which the switches must have, too: ip link set dev {interface} mtu "
    "{mtu} on {hosts}"
)


class Facts(msgspec.Struct, frozen=True):
    """A rank's host, ``place``, which other hosts do not have, and the interface that is used."""

    host: str
    place: str
    wire: Wire


def probe(ctx: Context) -> Facts:
    """Return the interface that this rank's backend would use, with its MTU."""
    wire = own_wire(ctx.host, ctx.backend, ctx.environ)
    if wire is None:
        raise Skip("no interface of this host leads to other hosts")
    return Facts(ctx.host, place_of(ctx.host), wire)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return one finding for each network whose hosts have several MTUs."""
    hosts = {own.place: own for own in facts.values() if own.wire.mtu_bytes}
    networks = dict.fromkeys(own.wire.network for own in hosts.values())
    found = ([own for own in hosts.values() if own.wire.network == each] for each in networks)
    return [_finding(facts, there) for there in found if len(set(_mtus(there))) > 1]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return the MTUs that there are."""
    told = sorted({own.wire.mtu_bytes for own in facts.values()})
    return f"MTU {', '.join(map(str, told))} bytes"


def _finding(facts: Mapping[int, Facts], there: list[Facts]) -> Finding:
    counts = Counter(_mtus(there))
    (usual, most), (_, next_most) = counts.most_common(2)
    # Where no size is the usual one, the smallest is what passes for certain.
    right = min(counts) if most == next_most else usual
    odd = [own for own in there if own.wire.mtu_bytes != right]
    groups = {
        mtu: listed(sorted(own.host for own in there if own.wire.mtu_bytes == mtu))
        for mtu in sorted(counts)
    }
    told = "; ".join(f"{mtu} bytes on {hosts}" for mtu, hosts in groups.items())
    places = {own.place for own in odd}
    return Finding(
        title="hosts of one network have different MTUs",
        message=f"{there[0].wire.network}: {told}",
        fix=FIX.format(
            interface=" or ".join(sorted({own.wire.interface for own in odd})),
            mtu=right,
            hosts=listed(sorted(own.host for own in odd)),
        ),
        ranks=tuple(sorted(rank for rank, own in facts.items() if own.place in places)),
        severity=Severity.WARNING,
        confidence=Confidence.MEDIUM,
    )


def _mtus(there: list[Facts]) -> list[int]:
    return [own.wire.mtu_bytes for own in there]
