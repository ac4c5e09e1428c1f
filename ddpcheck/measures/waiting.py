"""Who waits for whom in the collectives of groups, and who of them can never go on."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from ddpcheck.measures.deviation import Deviation, deviants, other_digest
from ddpcheck.measures.testimony import MAKING, Call, GroupCalls, State, Testimony
from ddpcheck.measures.words import spans

WORLD = ""
# How a rank is seen to wait for what another one sends: in recv itself, or by a handle.
_RECEIVING = ("recv", "irecv", "wait")
_SENDING = ("send", "isend")
# A functional collective is waited for so, as those of DTensor are.
_COLLECTIVES = "wait_tensor"


class Wait(NamedTuple):
    """The call that a rank is inside, of which group, and the members that have not entered it."""

    group: GroupCalls
    call: Call
    absent: tuple[int, ...]


def is_receiving(own: Testimony) -> bool:
    """Return whether a rank waits for what another one sends; NCCL's pending calls name both."""
    return own.waits.startswith(_RECEIVING) and not own.waits.startswith(_COLLECTIVES)


def is_sending(own: Testimony) -> bool:
    """Return whether a rank waits for another one to take what it sends."""
    return own.waits.startswith(_SENDING)


def is_in_transfer(own: Testimony) -> bool:
    """Return whether a rank waits for one other rank, and not in a collective."""
    return is_receiving(own) or is_sending(own)


def waits_of(told: Mapping[int, Testimony]) -> dict[int, Wait]:
    """Return what each rank waits in for other members of a group, as far as it is known."""
    found: dict[int, Wait] = {}
    for rank, each in told.items():
        # What the script called tells more than what torch makes of it: it comes last.
        for group in (*_sorted(each.groups), _world(each, told)):
            call = next((call for call in group.calls if not call.done), None)
            if group.is_between:
                call = _unmatched(rank, told, group)
            if call is not None and group.name != MAKING:
                others = [other for other in _members(group, told) if other != rank]
                absent = [
                    r for r in others if r not in told or _reach(told[r], group) < call.number
                ]
                found[rank] = Wait(group, call, tuple(absent))
    return found


def _sorted(groups: Collection[GroupCalls]) -> list[GroupCalls]:
    return sorted(groups, key=lambda each: (each.is_of_script, not each.is_between))


def _unmatched(rank: int, told: Mapping[int, Testimony], group: GroupCalls) -> Call | None:
    """Return the first transfer that a rank waits in and that the other side has not called."""
    if not group.ranks or not (is_sending if rank == group.ranks[0] else is_receiving)(told[rank]):
        return None
    other = next(each for each in group.ranks if each != rank)
    called = _reach(told[other], group) if other in told else 0
    return next((call for call in group.calls if call.number > called), None)


def _members(group: GroupCalls, told: Mapping[int, Testimony]) -> tuple[int, ...]:
    """Return the ranks of a group, which whoever left nothing but a file could not tell."""
    known = (e.ranks for t in told.values() for e in t.groups if e.name == group.name and e.ranks)
    return group.ranks or next(known, ())


def unlike_in_group(told: Mapping[int, Testimony]) -> dict[int, Deviation]:
    """Return those whose call on a group is not what most of its members made, as ``deviants``.

    The script's own calls are asked first: they tell more than what torch makes of them.
    """
    groups = {each.name: each for own in told.values() for each in _sorted(own.groups)}
    all_ended = all(each.state is State.ENDED for each in told.values())
    for group in reversed(_sorted(groups.values())):
        own = {r: g for r, t in told.items() for g in t.groups if g.name == group.name}
        if group.name == MAKING or group.is_between or len(own) == 1:
            continue
        odd = deviants({rank: each.calls for rank, each in own.items()})
        if not odd and all_ended and group.is_of_script:
            odd = _other_digest(own)
        if odd:
            where = f", in the group of rank {spans(_members(group, told))}"
            return {
                rank: Deviation(each.reason + where, each.is_sure) for rank, each in odd.items()
            }
    return _unlike_making(told)


def _unlike_making(told: Mapping[int, Testimony]) -> dict[int, Deviation]:
    """Return those that make another group than most do, where somebody waits for one to be made.

    All ranks of the world make each group, in the same order, whether they are its members or not.
    """
    made = {rank: calls for rank, each in told.items() if (calls := _calls_on(each, MAKING))}
    is_waited_for = any(not calls[-1].done for calls in made.values())
    return deviants(made) if is_waited_for else {}


def _other_digest(own: Mapping[int, GroupCalls]) -> dict[int, Deviation]:
    counts = {each.calls[-1].number if each.calls else 0 for each in own.values()}
    if len(counts) > 1:
        return {}
    return other_digest({rank: each.digest for rank, each in own.items()})


def is_under_way(told: Mapping[int, Testimony]) -> bool:
    """Return whether a group of a script's own is in a call that all its members have entered."""
    waits = waits_of(told).values()
    return any(each.group.is_of_script and each.group.name and not each.absent for each in waits)


def in_vain(told: Mapping[int, Testimony]) -> dict[int, str]:
    """Return the ranks that keep others waiting for ever, in a group of a script's own, and how.

    One that has ended will not come; those that wait for each other cannot. Nobody is named where
    the chain of those that wait ends with a rank of which it is not known where it is.
    """
    if not any(each.groups for each in told.values()):
        return {}
    waits = waits_of(told)
    if not all(told[rank].overran for rank in waits):
        return {}
    awaited = {rank: set(each.absent) for rank, each in waits.items() if each.absent}
    if all(waits[rank].group.name == WORLD for rank in awaited):
        return {}
    last = _ends_of_chains(awaited)
    ended = {rank for rank in last if rank in told and told[rank].state is State.ENDED}
    if ended:
        return {rank: _missing(rank, waits) for rank in sorted(ended)}
    if last - set(awaited):
        return {}
    circle = sorted(last)
    return {rank: _waiting(waits[rank]) + _made(rank, told, circle) for rank in circle}


def _ends_of_chains(awaited: Mapping[int, Collection[int]]) -> set[int]:
    """Return the ranks that all chains lead to, and that lead to none but each other."""
    reached = {rank: _reached(rank, awaited) for rank in awaited}
    ends = {rank for each in reached.values() for rank in each if rank not in awaited}
    if ends:
        return ends
    return {rank for rank, own in reached.items() if all(rank in reached[other] for other in own)}


def _reached(rank: int, awaited: Mapping[int, Collection[int]]) -> set[int]:
    found: set[int] = set()
    ahead = list(awaited[rank])
    while ahead:
        other = ahead.pop()
        if other not in found:
            found.add(other)
            ahead += awaited.get(other, ())
    return found


def _world(own: Testimony, told: Mapping[int, Testimony]) -> GroupCalls:
    return GroupCalls(WORLD, tuple(sorted(told)), own.calls)


def _reach(own: Testimony, group: GroupCalls) -> int:
    calls = own.calls if group.name == WORLD else _calls_on(own, group.name)
    return max((call.number for call in calls), default=0)


def _calls_on(own: Testimony, name: str) -> tuple[Call, ...]:
    return next((each.calls for each in own.groups if each.name == name), ())


def _waiting(wait: Wait) -> str:
    if wait.group.is_between and wait.absent[0] == wait.group.ranks[-1]:
        place = f" at {wait.call.site}" if wait.call.site else ""
        other = wait.absent[0]
        return (
            f"sends transfer {wait.call.number} to rank {other}{place}, which has not asked for it"
        )
    if wait.group.is_between:
        asked = f", asked for at {wait.call.site}," if wait.call.site else ","
        transfer = f"its transfer {wait.call.number} from rank {wait.absent[0]}"
        return f"waits for {transfer}{asked} which was not sent"
    return f"waits in {_shown(wait)}, which rank {spans(wait.absent)} has not entered"


def _missing(rank: int, waits: Mapping[int, Wait]) -> str:
    first = min(other for other, each in waits.items() if rank in each.absent)
    return f"has ended, and did not enter {_shown(waits[first])}, in which rank {first} waits"


def _shown(wait: Wait) -> str:
    if wait.group.is_between:
        return wait.call.what
    place = f" at {wait.call.site}" if wait.call.site else ""
    return f"{wait.call.what}{place} of rank {spans(wait.group.ranks)}"


def _made(rank: int, told: Mapping[int, Testimony], others: Collection[int]) -> str:
    """Return which group the rank has made that one of the others has not, '' where none."""
    for other in sorted(set(others) & set(told)):
        theirs = {(call.number, call.what) for call in _calls_on(told[other], MAKING)}
        own = _calls_on(told[rank], MAKING)
        odd = next((call for call in own if (call.number, call.what) not in theirs), None)
        if odd is not None:
            return f"; it called {odd.what} at {odd.site}, which rank {other} has not"
    return ""
