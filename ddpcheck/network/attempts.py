"""Connections that were tried between hosts, and which of those that failed a backend needs.

Sources: gloo, transport/tcp/device.cc (isInitiator): of two hosts the one with the higher address
connects, and not the other one. NCCL's ranks connect both ways (src/bootstrap.cc, rings of
src/transport/net.cc). With NCCL 2.28.9 two hosts of two networks each failed at once when the
second one led nowhere ("socketStartConnect: connect to 172.18.1.1 failed"), and trained on the
first one when only one of them had a second.
"""

import ipaddress
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from ddpcheck.measures.words import listed
from ddpcheck.network.choice import Chosen
from ddpcheck.network.culprits import Pair
from ddpcheck.network.echo import Listener, patient_visit, visit
from ddpcheck.network.own_address import told_by
from ddpcheck.network.reach import Reach, Reached
from ddpcheck.network.roster import Seat, visit_all
from ddpcheck.network.standing import Standing

# TCP sends a lost SYN again after 1 s and after 3 s (RFC 6298, 2.1 and 5.5): one may get lost.
CONNECT_S = 3.5
# A rank that was stopped for a moment, or is busy, answers late; a sidecar never does.
ANSWER_S = 4.0
# Kinds that are not here have no use: an address needs no name server.
HOW = {
    Reached.REFUSED: "refused, though a rank listens there",
    Reached.FILTERED: f"no answer within {CONNECT_S:g} s",
    Reached.NO_ROUTE: "no route, or a firewall that prohibits it",
    Reached.CLOSED: "accepted and closed at once, though not by the rank that listens there",
    Reached.SILENT: "accepted and never answered, though not by the rank that listens there",
    Reached.OTHER: "answered by something else than the rank that listens there",
}
STRANGERS = frozenset({Reached.CLOSED, Reached.SILENT, Reached.OTHER})


class Attempt(msgspec.Struct, frozen=True):
    """How connecting to an address of one other host ended; ``place`` names the host."""

    host: str
    place: str
    address: str
    kind: Reached

    @property
    def is_open(self) -> bool:
        """Return whether the host was reached."""
        return self.kind is Reached.OPEN


Tried = Mapping[Pair, Sequence[Attempt]]


def attempts_at(peers: Sequence[Seat]) -> tuple[Attempt, ...]:
    """Return how connecting to the listeners of these hosts ended, tried at the same time.

    A spare one is tried where another one of its host was not reached.
    """
    tried = visit_all(_visit, peers)
    lost = {seat.place for seat, _, reach in tried if not reach.is_open}
    spares = [
        msgspec.structs.replace(seat, listener=seat.spare, others=())
        for seat in peers
        if seat.spare and seat.place in lost
    ]
    tried += visit_all(lambda listener: visit(listener, CONNECT_S), spares)
    return tuple(Attempt(s.host, s.place, door.address, reach.kind) for s, door, reach in tried)


def in_words(names: Mapping[str, str], tried: Tried) -> str:
    """Return which of these pairs ended how; ``names`` are those of the places."""
    ways: dict[Reached, list[str]] = {}
    for (begin, _), attempts in tried.items():
        for each in attempts:
            pair = f"{names[begin]} to {each.host} ({each.address})"
            ways.setdefault(each.kind, []).append(pair)
    return "; ".join(f"{listed(pairs)}: {HOW[kind]}" for kind, pairs in ways.items())


class Hosts:
    """What the hosts' backends would use; ``standings`` are by place."""

    def __init__(self, standings: Mapping[str, Standing]) -> None:
        self._standings = standings
        self._told = {place: told_by(own) for place, own in standings.items()}
        self._fewest = max(1, min(map(len, self._told.values()), default=1))
        self._domains: defaultdict[str, set[str]] = defaultdict(set)
        for place, told in self._told.items():
            for each in told:
                self._domains[each.address].add(standings[place].domain)

    @property
    def backend(self) -> str:
        """Return the backend, '' when it is not known."""
        return next((own.backend for own in self._standings.values()), "")

    def used(self, tried: Tried) -> dict[Pair, list[Attempt]]:
        """Return what was tried at addresses that the backends use, by pairs of places.

        Left out is what another check says: an address that several hosts have, or one of a
        family that the visitor does not have.
        """
        told = {
            (begin, to): [each for each in attempts if self._is_judged(each, begin)]
            for (begin, to), attempts in tried.items()
        }
        return {pair: attempts for pair, attempts in told.items() if attempts}

    def need(self, attempt: Attempt, begin: str) -> bool:
        """Return whether the backend connects this way, from the host at ``begin``."""
        if begin not in self._standings or attempt.place not in self._standings:
            return True
        number = self._number(attempt)
        if self.backend == "nccl":
            return number < self._fewest
        own, other = (self._told_as(number, place) for place in (begin, attempt.place))
        if own is None or other is None or own.family != other.family:
            return True
        return int(ipaddress.ip_address(own.address)) >= int(ipaddress.ip_address(other.address))

    def better_way(self, attempt: Attempt, attempts: Iterable[Attempt]) -> str:
        """Return the interface by which the host was reached all the same, its way out, or ''."""
        there = self._standings.get(attempt.place)
        way = there.way if there else None
        opened = {each.address for each in attempts if each.is_open}
        return way.interface if way and way.address in opened - {attempt.address} else ""

    def _is_judged(self, attempt: Attempt, begin: str) -> bool:
        there = self._standings.get(attempt.place)
        if there is None:
            return True
        is_used = attempt.address in {each.address for each in self._told[attempt.place]}
        return is_used and not (
            self._is_shared(attempt, there) or self._is_of_other_family(attempt, begin)
        )

    def _is_shared(self, attempt: Attempt, there: Standing) -> bool:
        # Of what NCCL was told to use by name, wrong-interface sees the first, nobody the others.
        is_unsaid = there.choice.is_named and self.backend == "nccl" and self._number(attempt) > 0
        return len(self._domains[attempt.address]) > 1 and not is_unsaid

    def _is_of_other_family(self, attempt: Attempt, begin: str) -> bool:
        """Return whether mixed-address-families says that there is no way."""
        here, own = self._standings.get(begin), self._told.get(begin)
        family = ipaddress.ip_address(attempt.address).version
        if here is None or not own or own[0].family == family:
            return False
        return self.backend != "nccl" or family not in here.families

    def _number(self, attempt: Attempt) -> int:
        """Return which of its host's addresses was tried, from 0."""
        told = [each.address for each in self._told[attempt.place]]
        return told.index(attempt.address) if attempt.address in told else 0

    def _told_as(self, number: int, place: str) -> Chosen | None:
        """Return what gloo would tell, be it a loopback, which decides who connects."""
        chosen = self._standings[place].choice.chosen or self._told[place]
        return chosen[number] if number < len(chosen) else None


def _visit(listener: Listener) -> Reach:
    return patient_visit(listener, CONNECT_S, ANSWER_S)
