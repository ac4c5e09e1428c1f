"""Which ranks' collectives differ from what most ranks called."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from typing import NamedTuple

from ddpcheck.measures.testimony import Call
from ddpcheck.measures.words import spans

# Ranks may bring, or be recorded with, other sizes in these.
UNEVEN = ("all_to_all", "alltoall", "gather", "scatter", "broadcast_object", "_object")
EVEN_ALL_THE_SAME = ("all_gather", "reduce_scatter")
# The rank from which, or to which, all goes.
ROOT = re.compile(r" (from|to) rank \d+$")


class Deviation(NamedTuple):
    """How a rank's call differs; not sure where as many ranks made the other one."""

    reason: str
    is_sure: bool = True


def deviants(calls: Mapping[int, Collection[Call]]) -> dict[int, Deviation]:
    """Return, for those whose first call that differs is not what most made, how it differs.

    All are returned where equally many made each call. A number that only some ranks still
    remember decides only when no other does.
    """
    by_number: dict[int, dict[int, Call]] = {}
    for rank, made in calls.items():
        for call in made:
            by_number.setdefault(call.number, {})[rank] = call
    undecided: dict[int, Deviation] = {}
    for number in sorted(by_number):
        made_here = by_number[number]
        counts = Counter(comparable(call.what) for call in made_here.values())
        if len(counts) == 1:
            continue
        usual, most = counts.most_common(1)[0]
        if 2 * most > len(made_here):
            return _named(made_here, usual)
        undecided = undecided or _named(made_here, None)
    return undecided


def comparable(what: str) -> str:
    """Return what must be the same on all ranks of a collective: sizes may differ in some."""
    name, _, sizes = what.partition(" ")
    uneven = any(word in name for word in UNEVEN)
    even = any(name.startswith(word) for word in EVEN_ALL_THE_SAME) and "_object" not in name
    root = ROOT.search(what)
    return what if sizes and (even or not uneven) else name + (root[0] if root else "")


def other_place(places: Mapping[int, str]) -> dict[int, str]:
    """Return those that wait in another place than most, and where."""
    counts = Counter(places.values())
    usual, most = counts.most_common(1)[0]
    if 2 * most <= len(places):
        return {}
    return {
        rank: f"waits in {place}, where others wait in {usual}"
        for rank, place in places.items()
        if place != usual
    }


def _named(made: Mapping[int, Call], usual: str | None) -> dict[int, Deviation]:
    return {
        rank: Deviation(_difference(call, made), is_sure=usual is not None)
        for rank, call in made.items()
        if comparable(call.what) != usual
    }


def _difference(call: Call, made: Mapping[int, Call]) -> str:
    where = f" at {call.site}" if call.site else ""
    others = Counter(each.what for each in made.values() if each.what != call.what)
    other = others.most_common(1)[0][0]
    theirs = {rank: each for rank, each in made.items() if each.what == other}
    number = f"its collective number {call.number}"
    told = f"called {call.what}{where} as {number}, where rank {spans(theirs)} called {other}"
    site = next(iter(theirs.values())).site
    return f"{told} at {site}" if site and site != call.site else told


def other_count(calls: Mapping[int, Collection[Call]]) -> dict[int, Deviation]:
    """Return those that made fewer or more calls than most, when each has come to its end."""
    reach = {rank: max(call.number for call in made) for rank, made in calls.items()}
    usual, most = next(iter(Counter(reach.values()).most_common(1)), (0, 0))
    if 2 * most <= len(reach):
        return {}
    return {
        rank: Deviation(f"called {count} collectives, where others called {usual}")
        for rank, count in reach.items()
        if count != usual
    }


def other_digest(digests: Mapping[int, str]) -> dict[int, Deviation]:
    """Return those whose calls, as a whole, are not those that most made; all when equally many.

    For differences so long ago that nobody remembers the calls themselves.
    """
    counts = Counter(digests.values())
    if len(counts) == 1 or "" in counts:
        return {}
    usual, most = counts.most_common(1)[0]
    sure = 2 * most > len(digests)
    reason = "called other collectives than most, long before its last ones"
    return {
        rank: Deviation(reason, is_sure=sure)
        for rank, digest in digests.items()
        if not sure or digest != usual
    }
