"""The links from this host to others, measured one after the other, and what is wrong with one."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from ddpcheck.network.culprits import Pair
from ddpcheck.network.echo import Listener, Talk, talk
from ddpcheck.network.roster import Seat

# Linux sends a lost packet again after 200 ms at the earliest (TCP_RTO_MIN), then after 400 ms.
TALK_S = 2.0
ALL_TALKS_S = 4.0
# TCP's throughput falls with the root of the loss (Mathis et al. 1997): at 1 % and 0.1 ms it has
# 1.4 Gbit/s. Networks within one place lose next to nothing; half of 1 % is told.
LOST_RATIO = 0.005
LOST_COUNT = 4


class Link(msgspec.Struct, frozen=True):
    """What talking to one other host gave; ``place`` names the host."""

    host: str
    place: str
    talk: Talk


def measured_links(peers: Sequence[Seat], clock: Callable[[], float]) -> Iterator[Link]:
    """Yield the links; in the peers' order few hosts talk to the same one at a time.

    Many that send to one at once lose packets on a healthy network.
    """
    end = clock() + ALL_TALKS_S
    for seat in peers:
        if clock() < end:
            yield Link(seat.host, seat.place, settled(seat.listener))


def settled(listener: Listener, talk: Callable[[Listener, float], Talk] = talk) -> Talk:
    """Return the better of two talks where the first one lost packets: it may have been chance."""
    first = talk(listener, TALK_S)
    again = talk(listener, TALK_S) if is_lossy(first) else first
    return min(first, again, key=lambda told: (not told.reach.is_open, told.retransmitted_ratio))


def is_lossy(told: Talk) -> bool:
    """Return whether more packets were lost than chance and a healthy network explain."""
    return told.retransmitted_count >= LOST_COUNT and told.retransmitted_ratio >= LOST_RATIO


def trips_s(talks: Mapping[Pair, Talk]) -> dict[Pair, float]:
    """Return the shorter round trip of both ways between two hosts: a busy host answers late."""
    told = {pair: each.round_trip_min_s for pair, each in talks.items() if each.round_trip_min_s}
    return {(a, b): min(trip_s, told.get((b, a), trip_s)) for (a, b), trip_s in told.items()}
