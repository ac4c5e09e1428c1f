"""Who stopped the run, and who only waited for them: from what is known of each rank.

The first of these questions that has an answer decides:

1. Who came to another collective, or brought another shape or dtype, than most did?
2. Who went by its own doing: raised, died, was stopped, fell silent?
3. Who overran its deadline outside of any collective?
4. Whom do others wait for in a group of the script's, who has ended or waits for them elsewhere?
5. Whose parts of a collective did not match, so that gloo broke it off?
6. Who has not entered the collective in which others wait, or entered one that no other did?
7. Who fell silent inside of a collective, as one that waits on a very busy machine may?
8. Who was still at work elsewhere when the others' group gave up waiting?
9. Who aborted first, or lost its peers, while the others wait?

Everybody else who did not come through has waited for these. An innocent rank that is named costs
as much as a culprit that is not: where nothing tells two apart, both or all are named alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple

from ddpcheck.measures.broken_off import came_too_late, parted
from ddpcheck.measures.deviation import deviants, other_count, other_digest, other_place
from ddpcheck.measures.testimony import ABORTED, State, Testimony
from ddpcheck.measures.waiting import in_vain, is_in_transfer, is_under_way, unlike_in_group
from ddpcheck.measures.words import known_as

# What launchers, schedulers and users send to end a job.
ASKED = ("SIGTERM", "SIGINT", "SIGHUP")
# ddpcheck's own code for a run that was cut short: that rank left because others could not go on.
LEFT_AS_TOLD = "exit code 4"
# Of a rank that will call no more collectives.
AT_ITS_END = "came to its script's end"


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
    """What became of one rank, in which words, and whether it may be another rank's fault."""

    kind: Kind
    reason: str
    is_sure: bool = True


def inquest(told: Mapping[int, Testimony]) -> dict[int, Ruling]:
    """Return the ruling on each rank."""
    # What one raised in a check that it went on from stopped nobody: it stands for itself.
    apart = {rank: _raised(each) for rank, each in told.items() if each.went_on}
    rest = {rank: each for rank, each in told.items() if rank not in apart}
    return apart | _of_those_together(rest)


def is_deadlock(told: Mapping[int, Testimony]) -> bool:
    """Return whether ranks that all wait can never go on.

    Those that wait in one collective may be carrying it out, over a slow network; but not where
    all send, or all receive. Others may wait for these.
    """
    if is_under_way(told):
        return bool(_other_call(told))
    waits = {each.waits.partition(" ")[0] for each in told.values()}
    one_sided = any(waits <= side for side in ({"send", "isend"}, {"recv", "irecv"}))
    return one_sided or any(question(told) for question in QUESTIONS)


def _of_those_together(told: Mapping[int, Testimony]) -> dict[int, Ruling]:
    rulings = {rank: Ruling(Kind.THROUGH, "") for rank in told}
    if all(t.state is State.ENDED and not (t.calls or t.groups) for t in told.values()):
        return rulings
    culprits: dict[int, Ruling] = {}
    for question in QUESTIONS:
        culprits = culprits or question(told)
    rest = {rank: each for rank, each in told.items() if rank not in culprits}
    return rulings | _of_the_rest(rest, culprits) | culprits


def _other_call(told: Mapping[int, Testimony]) -> dict[int, Ruling]:
    # A skipped call shifts all later ones; DDP's own calls are in the record alone.
    called = {rank: each.calls for rank, each in told.items() if each.calls}
    recorded = {rank: each.recorded for rank, each in told.items() if each.recorded}
    odd = deviants(called) or deviants(recorded)
    if not odd and all(each.state is State.ENDED for each in told.values()):
        odd = other_count(called) or other_digest({r: t.digest for r, t in told.items()})
    odd = odd or unlike_in_group(told)
    return {rank: Ruling(Kind.OTHER_CALL, each.reason, each.is_sure) for rank, each in odd.items()}


def _own_doing(told: Mapping[int, Testimony]) -> dict[int, Ruling]:
    stood = {rank for rank, each in told.items() if each.stood_s}
    # Where all of them stood, it was their machine.
    stood = stood if len(stood) < len(told) else set()
    sure = {r: each for r, each in told.items() if _went_by_itself(each) or r in stood}
    # Of some it is only known that they are gone: beside one that is known to have died, those
    # that were inside a collective have waited for it, and were ended by whoever started them.
    known = any(each.ended_by or each.state is not State.GONE for each in sure.values())
    return {
        rank: _blamed(each)
        for rank, each in sure.items()
        if not known or each.state is not State.GONE or each.ended_by or not each.waits_in
    }


def _went_by_itself(each: Testimony) -> bool:
    if each.state is State.RAISED:
        return not each.is_victim
    if each.state is State.SILENT and each.waits:
        return False
    if each.state is State.GONE:
        return each.ended_by not in (*ASKED, ABORTED, LEFT_AS_TOLD)
    return each.state in (State.STOPPED, State.SILENT, State.GARBLED)


def _blamed(each: Testimony) -> Ruling:
    where = f" in {known_as(each.check)}" if each.check else ""
    if each.stood_s and (each.state is not State.RAISED or each.is_victim):
        where = f" in {known_as(each.stood_in or each.check)}"
        return Ruling(Kind.STALLED, f"was at a stop for {each.stood_s:.1f} s{where}")
    if each.state is State.RAISED:
        return _raised(each)
    if each.state is State.STOPPED:
        return Ruling(Kind.STALLED, f"is stopped by a signal{where}")
    if each.state is State.SILENT:
        return Ruling(Kind.STALLED, f"fell silent{where}: {each.ended_by or 'no sign of life'}")
    if each.state is State.GARBLED:
        return Ruling(Kind.LOST, f"told something of {known_as(each.check)} that cannot be read")
    return Ruling(Kind.LOST, f"{_end_of(each)}{where}")


def _raised(each: Testimony) -> Ruling:
    return Ruling(Kind.RAISED, f"raised in {known_as(each.check)}: {each.error}")


def _end_of(each: Testimony) -> str:
    if not each.ended_by:
        return "ended without a word"
    verb = "was ended by" if each.ended_by.startswith("SIG") else "left with"
    return f"{verb} {each.ended_by}"


def _outside(told: Mapping[int, Testimony]) -> dict[int, Ruling]:
    busy = {rank: each for rank, each in told.items() if each.state is State.BUSY}
    late = {rank: each for rank, each in busy.items() if each.overran and not each.waits}
    # Where nobody is seen in a collective, a GPU may be: the counts tell who is behind.
    if len(late) == len(busy) > 1:
        behind = _behind(told)
        if behind:
            return behind
    return {
        rank: Ruling(Kind.STALLED, f"overran its deadline in {known_as(each.check)}")
        for rank, each in late.items()
    }


def _in_groups(told: Mapping[int, Testimony]) -> dict[int, Ruling]:
    """Return those that others wait for in vain in a group that a script has made."""
    vain = in_vain(told)
    kind = Kind.STALLED if all(is_in_transfer(told[rank]) for rank in vain) else Kind.OTHER_CALL
    return {
        rank: Ruling(Kind.ABSENT_FROM_CALL, reason)
        if told[rank].state is State.ENDED
        else Ruling(kind, reason, is_sure=False)
        for rank, reason in vain.items()
    }


def _behind(told: Mapping[int, Testimony]) -> dict[int, Ruling]:
    """Return those that have entered fewer collectives than those who wait."""
    able = {r: t for r, t in told.items() if t.state in (State.BUSY, State.ENDED, State.RAISED)}
    able |= {r: t for r, t in told.items() if t.ended_by == ABORTED and t.waits}
    if not any(each.overran or each.ended_by == ABORTED for each in able.values()):
        return {}
    for reach in _reaches(able):
        if len(reach) == len(able) and len(set(reach.values())) > 1:
            return _by_reach(able, reach)
    return {}


def _by_reach(told: Mapping[int, Testimony], reach: Mapping[int, int]) -> dict[int, Ruling]:
    lowest, highest = min(reach.values()), max(reach.values())
    ahead = [rank for rank, count in reach.items() if count == highest]
    ended = [rank for rank, each in told.items() if each.state is State.ENDED]
    call = next((told[rank].waits for rank in ahead if told[rank].waits), "a collective")
    if 2 * len(ahead) < len(reach) and set(ended) >= set(reach) - set(ahead):
        reason = f"entered {call} as its collective number {highest}; no other rank made so many"
        return {rank: Ruling(Kind.OTHER_CALL, reason) for rank in ahead}
    if len(ended) == len(ahead) == 1 == len(told) - 1 and told[ahead[0]].is_watched:
        return _one_and_the_other(ahead[0], ended[0], call)
    reason = f"did not enter {call}, which others are in"
    return {
        rank: Ruling(Kind.ABSENT_FROM_CALL, reason)
        for rank, count in reach.items()
        if count == lowest
    }


def _one_and_the_other(waiting: int, ended: int, call: str) -> dict[int, Ruling]:
    """Return the ruling where one made a call too many or the other one too few: it is not known."""
    extra = f"waits in {call}, which rank {ended} did not enter"
    return {
        waiting: Ruling(Kind.OTHER_CALL, extra, is_sure=False),
        ended: Ruling(Kind.OTHER_CALL, f"{AT_ITS_END} without {call}", is_sure=False),
    }


def _reaches(told: Mapping[int, Testimony]) -> Iterator[dict[int, int]]:
    """Yield how far each rank has come in the collectives, from each source that knows.

    A rank is in the first call that is not done: later ones may be queued behind it.
    """
    recorded = {rank: each.recorded for rank, each in told.items() if each.recorded}
    yield {
        rank: next((call.number for call in made if not call.done), made[-1].number)
        for rank, made in recorded.items()
    }
    yield {rank: each.sequence for rank, each in told.items() if each.sequence}
    if any(each.calls for each in told.values()):
        yield {rank: each.calls[-1].number if each.calls else 0 for rank, each in told.items()}


def _not_there(told: Mapping[int, Testimony]) -> dict[int, Ruling]:
    """Return those that are busy elsewhere while others wait, by their stacks alone."""
    waiting = {rank: each for rank, each in told.items() if each.waits and each.overran}
    if not waiting:
        return {}
    usual = Counter(each.waits for each in waiting.values()).most_common(1)[0][0]
    elsewhere = {
        rank: Ruling(
            Kind.STALLED, f"is in {known_as(each.check)}, and not in {usual}, where others wait"
        )
        for rank, each in told.items()
        if each.state is State.BUSY and not each.waits
    }
    if elsewhere:
        return elsewhere
    odd = other_place({rank: each.waits for rank, each in waiting.items()})
    return {rank: Ruling(Kind.OTHER_CALL, reason, is_sure=False) for rank, reason in odd.items()}


def _silent_inside(told: Mapping[int, Testimony]) -> dict[int, Ruling]:
    silent = {rank: each for rank, each in told.items() if each.state is State.SILENT}
    return {rank: _blamed(each) for rank, each in silent.items() if each.waits}


def _parted(told: Mapping[int, Testimony]) -> dict[int, Ruling]:
    return {r: Ruling(Kind.OTHER_CALL, said, is_sure=False) for r, said in parted(told).items()}


def _too_late(told: Mapping[int, Testimony]) -> dict[int, Ruling]:
    return {rank: Ruling(Kind.STALLED, said) for rank, said in came_too_late(told).items()}


def _gave_up(told: Mapping[int, Testimony]) -> dict[int, Ruling]:
    """Return those that aborted before anybody was asked to end, or that others wait for."""
    asked = [each.order for each in told.values() if each.ended_by in ASKED and each.order]
    aborted = {r: t for r, t in told.items() if t.ended_by == ABORTED}
    first = min((each.order for each in aborted.values()), default=0)
    if aborted and not (asked and first and min(asked) < first):
        return {rank: _blamed(each) for rank, each in aborted.items() if each.order == first}
    waiting = any(each.waits and each.overran for each in told.values())
    lost_peers = {r: t for r, t in told.items() if t.state is State.RAISED and waiting}
    return {rank: _without_peers(each) for rank, each in lost_peers.items()}


def _without_peers(each: Testimony) -> Ruling:
    return Ruling(Kind.RAISED, f"lost its peers in {known_as(each.check)}: {each.error}")


def _of_the_rest(
    rest: Mapping[int, Testimony], culprits: Mapping[int, Ruling]
) -> dict[int, Ruling]:
    names = f"rank {', '.join(str(rank) for rank in sorted(culprits))}"
    asked = next((t.interrupted_by for t in rest.values() if t.interrupted_by), "")
    asked = asked or next((t.ended_by for t in rest.values() if t.ended_by in ASKED), "")
    return {
        rank: _waited(each, names) if culprits else _without_culprit(each, asked)
        for rank, each in rest.items()
        if each.state is not State.ENDED
    }


def _waited(each: Testimony, names: str) -> Ruling:
    where = f" in {known_as(each.check)}" if each.check else ""
    if each.state is State.GONE:
        return Ruling(Kind.WAITED, f"ended after {names}{where}")
    return Ruling(Kind.WAITED, f"waited for {names}{where}")


def _without_culprit(each: Testimony, asked: str) -> Ruling:
    where = f" in {known_as(each.check)}" if each.check else ""
    if asked or (each.state is State.BUSY and not each.overran):
        by = each.ended_by or each.interrupted_by or asked or "the end of the run"
        return Ruling(Kind.INTERRUPTED, f"interrupted by {by}{where}")
    if each.state is State.BUSY:
        return Ruling(Kind.STALLED, f"waits in {each.waits}{where}, as every rank does")
    if each.state is State.RAISED:
        return _without_peers(each)
    return Ruling(Kind.LOST, f"{_end_of(each)}{where}")


QUESTIONS = (
    *(_other_call, _own_doing, _outside, _in_groups, _parted, _behind, _not_there),
    *(_silent_inside, _too_late, _gave_up),
)
