"""Who stopped the run, and who only waited for them: from what is known of each rank.

The first of these questions that has an answer decides:

1. Who came to another collective, or brought another shape or dtype, than most did?
2. Who went by its own doing: raised, died, was stopped, fell silent?
3. Who overran its deadline outside of any collective?
4. Who has entered fewer collectives than those who wait?

Everybody else who did not come through has waited for these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import NamedTuple

from ddpcheck.measures.testimony import Call, State, Testimony

# Sent by launchers to the ranks that live on, and by libraries that find a peer gone.
BYSTANDERS_SIGNALS = ("SIGTERM", "SIGINT", "SIGABRT")


class Kind(StrEnum):
    """What became of a rank."""

    THROUGH = "through"
    OTHER_CALL = "other-call"
    RAISED = "raised"
    LOST = "lost"
    STALLED = "stalled"
    ABSENT_FROM_CALL = "absent-from-call"
    WAITED = "waited"
    INTERRUPTED = "interrupted"


# The kinds that name a culprit.
CULPRITS = (Kind.OTHER_CALL, Kind.RAISED, Kind.LOST, Kind.STALLED, Kind.ABSENT_FROM_CALL)


class Ruling(NamedTuple):
    """What became of one rank, and in which words."""

    kind: Kind
    reason: str


def inquest(told: Mapping[int, Testimony]) -> dict[int, Ruling]:
    """Return the ruling on each rank."""
    rulings = {rank: Ruling(Kind.THROUGH, "") for rank in told}
    if all(each.state is State.ENDED and not each.calls for each in told.values()):
        return rulings
    culprits = _other_call(told) or _own_doing(told) or _outside(told) or _behind(told)
    rest = {rank: each for rank, each in told.items() if rank not in culprits}
    return rulings | _of_the_rest(rest, culprits) | culprits


def _own_doing(told: Mapping[int, Testimony]) -> dict[int, Ruling]:
    guilty = {rank: _blamed(each) for rank, each in told.items() if _went_by_itself(each)}
    if guilty:
        return guilty
    lost = {rank: each for rank, each in told.items() if each.state is State.GONE}
    # They died of what libraries do when a peer is gone; the first has no such excuse.
    first = sorted(lost, key=lambda rank: (lost[rank].order or len(told), rank))[:1]
    return {rank: _blamed(lost[rank]) for rank in first if lost[rank].ended_by != "SIGTERM"}


def _went_by_itself(each: Testimony) -> bool:
    if each.state is State.RAISED:
        return not each.is_victim
    if each.state is State.GONE:
        return each.ended_by not in BYSTANDERS_SIGNALS
    return each.state in (State.STOPPED, State.SILENT, State.GARBLED)


def _blamed(each: Testimony) -> Ruling:
    where = f" in {each.check}" if each.check else ""
    if each.state is State.RAISED:
        return Ruling(Kind.RAISED, f"raised{where}: {each.error}")
    if each.state is State.STOPPED:
        return Ruling(Kind.STALLED, f"its process is stopped by a signal{where}")
    if each.state is State.SILENT:
        return Ruling(Kind.STALLED, f"fell silent{where}: {each.ended_by or 'no sign of life'}")
    if each.state is State.GARBLED:
        return Ruling(Kind.LOST, f"what it told of {each.check} cannot be read")
    return Ruling(Kind.LOST, f"{_end_of(each)}{where}")


def _end_of(each: Testimony) -> str:
    if not each.ended_by:
        return "its process ended without a word"
    verb = "was ended by" if each.ended_by.startswith("SIG") else "left with"
    return f"{verb} {each.ended_by}"


def _outside(told: Mapping[int, Testimony]) -> dict[int, Ruling]:
    stuck = {r: t for r, t in told.items() if t.state is State.BUSY and not t.waits_in}
    late = {r: t for r, t in stuck.items() if t.overran}
    return {
        rank: Ruling(Kind.STALLED, f"overran its deadline in {each.check}")
        for rank, each in late.items()
    }


def _behind(told: Mapping[int, Testimony]) -> dict[int, Ruling]:
    waiting = {r: t for r, t in told.items() if t.state is State.BUSY and t.waits_in}
    able = {r: t for r, t in told.items() if t.state in (State.BUSY, State.ENDED, State.RAISED)}
    if not any(each.overran for each in waiting.values()):
        return {}
    for reach in (_recorded_reach(able), _counted_reach(able), _called_reach(able)):
        if waiting and len(reach) == len(able) and min(reach.values()) < max(reach.values()):
            lowest = min(reach.values())
            furthest = max(waiting, key=lambda rank: reach[rank])
            call = told[furthest].waits_in
            return {
                rank: Ruling(Kind.ABSENT_FROM_CALL, f"did not enter {call}, in which others wait")
                for rank, count in reach.items()
                if count == lowest
            }
    return {}


def _recorded_reach(told: Mapping[int, Testimony]) -> dict[int, int]:
    return {rank: each.recorded[-1].number for rank, each in told.items() if each.recorded}


def _counted_reach(told: Mapping[int, Testimony]) -> dict[int, int]:
    return {rank: each.sequence for rank, each in told.items() if each.sequence}


def _called_reach(told: Mapping[int, Testimony]) -> dict[int, int]:
    """Return how many collectives each rank entered: 0 for one that has none to show."""
    return {rank: each.calls[-1].number if each.calls else 0 for rank, each in told.items()}


def _other_call(told: Mapping[int, Testimony]) -> dict[int, Ruling]:
    # A skipped call shifts all later ones; DDP's own calls are in the record alone.
    called = {rank: each.calls for rank, each in told.items() if each.calls}
    recorded = {rank: each.recorded for rank, each in told.items() if each.recorded}
    return _deviants(called) or _deviants(recorded)


def _deviants(calls: Mapping[int, Collection[Call]]) -> dict[int, Ruling]:
    """Return those whose first call that differs is not the one that most made."""
    by_number: dict[int, dict[int, Call]] = {}
    for rank, made in calls.items():
        for call in made:
            by_number.setdefault(call.number, {})[rank] = call
    for number in sorted(by_number):
        made_here = by_number[number]
        counts = Counter(call.what for call in made_here.values())
        if len(counts) > 1:
            return _named_deviants(made_here, counts)
    return {}


def _named_deviants(made: Mapping[int, Call], counts: Counter[str]) -> dict[int, Ruling]:
    usual, most = counts.most_common(1)[0]
    tied = list(counts.values()).count(most) > 1
    return {
        rank: Ruling(Kind.OTHER_CALL, _difference(call, _other_than(call, usual, counts)))
        for rank, call in made.items()
        if tied or call.what != usual
    }


def _other_than(call: Call, usual: str, counts: Counter[str]) -> str:
    return usual if call.what != usual else next(what for what in counts if what != usual)


def _difference(call: Call, other: str) -> str:
    where = f" at {call.site}" if call.site else ""
    return f"called {call.what}{where} as collective {call.number}, where others called {other}"


def _of_the_rest(
    rest: Mapping[int, Testimony], culprits: Mapping[int, Ruling]
) -> dict[int, Ruling]:
    names = f"rank {', '.join(str(rank) for rank in sorted(culprits))}"
    return {
        rank: _waited(each, names) if culprits else _without_culprit(each)
        for rank, each in rest.items()
        if each.state is not State.ENDED
    }


def _waited(each: Testimony, names: str) -> Ruling:
    where = f" in {each.check}" if each.check else ""
    if each.state is State.GONE:
        return Ruling(Kind.WAITED, f"ended after {names}{where}")
    return Ruling(Kind.WAITED, f"waited for {names}{where}")


def _without_culprit(each: Testimony) -> Ruling:
    if each.state is State.BUSY and not each.overran:
        by = each.interrupted_by or "the end of the run"
        return Ruling(Kind.INTERRUPTED, f"interrupted by {by} in {each.check}")
    if each.state is State.BUSY:
        call = each.waits_in or "a collective"
        return Ruling(Kind.STALLED, f"waits in {call} in {each.check}, as every rank does")
    if each.state is State.RAISED:
        return Ruling(Kind.RAISED, f"lost its peers in {each.check}: {each.error}")
    return Ruling(Kind.LOST, _end_of(each))
