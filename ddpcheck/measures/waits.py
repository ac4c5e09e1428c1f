"""Who waited long for whom, in one call that several ranks make together.

All ranks leave such a call at about the same time, so the one that was in it for the shortest time
came last, and the others waited for it: clocks of hosts need not agree.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ddpcheck.finding import Location

# A step is seconds at most; what takes longer is done once, and is worth a word.
LEAST_WAIT_S = 5.0
# Those that come within this time of the last one are late as well.
TOGETHER_S = 1.0


class Place(msgspec.Struct, frozen=True, array_like=True):
    """A call: its name, the ranks that make it (empty: all), the how-manieth of these, from 1."""

    name: str
    group: tuple[int, ...]
    number: int


class Visit(msgspec.Struct, frozen=True):
    """One rank's part in a call: how long it was in it, and how long it did other things before.

    ``inside`` is where it was for most of that, where this was seen: in a loader, in the model.
    """

    took_s: float
    before_s: float = 0.0
    inside: str = ""
    location: Location | None = None
    timeout_s: float | None = None


class Wait(msgspec.Struct, frozen=True):
    """The ranks that waited the longest in a call, for those that came late."""

    name: str
    waiting: tuple[int, ...]
    late: tuple[int, ...]
    waited_s: float
    own: Visit
    of_late: Visit | None
    timeout_s: float | None


def longest_waits(
    visits: Mapping[int, Mapping[Place, Visit]], counts: Mapping[int, Mapping[str, int]]
) -> list[Wait]:
    """Return the longest wait for each set of late ranks at each line; the longest one first.

    A rank's visits are those that took long, or came after long; its counts say how many calls of a
    kind (see ``kind``) it has come back from at all.
    """
    found: dict[tuple[tuple[int, ...], str], Wait] = {}
    for place in sorted({place for own in visits.values() for place in own}, key=repr):
        members = [rank for rank in place.group or sorted(visits) if rank in visits]
        if all(counts[rank].get(kind(place), 0) >= place.number for rank in members):
            wait = _wait(place, {rank: visits[rank].get(place) for rank in members})
            key = (wait.late, str(wait.own.location))
            if wait.waited_s >= LEAST_WAIT_S:
                found[key] = max(wait, found.get(key, wait), key=lambda each: each.waited_s)
    return sorted(found.values(), key=lambda each: -each.waited_s)


def kind(place: Place) -> str:
    """Return what calls of one name and group are counted under."""
    return f"{place.name} {place.group}"


def _wait(place: Place, visits: Mapping[int, Visit | None]) -> Wait:
    took_s = {rank: each.took_s if each else 0.0 for rank, each in visits.items()}
    least_s = min(took_s.values())
    late = tuple(rank for rank, own in took_s.items() if own <= least_s + TOGETHER_S)
    first = max(took_s, key=lambda rank: took_s[rank])
    own = visits[first] or Visit(0.0)
    waiting = tuple(rank for rank in took_s if rank not in late)
    of_late = next((visit for rank in late if (visit := visits[rank])), None)
    timeouts = [each.timeout_s for each in visits.values() if each and each.timeout_s]
    waited_s = took_s[first] - least_s
    return Wait(
        place.name, waiting, late, waited_s, own, of_late, min(timeouts) if timeouts else None
    )
