"""A rank called another collective than the others, or on another shape or dtype.

Why it matters
    Collectives pair up in the order of the calls. One that differs takes the others' data for its
    own: wrong values, an abort of a rank that did nothing wrong, or a hang some calls later.

What to do
    Go to the line of the named rank and see why it takes another path: a condition on the rank,
    a loop of another length, a batch of another size.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ddpcheck.finding import Confidence, Finding, Location
from ddpcheck.measures.inquest import Kind, Ruling, inquest
from ddpcheck.measures.stack_lines import place_of, place_of_site, told_places, users_place
from ddpcheck.measures.testimony import ASIDE, CHECKPOINTS, Call, State, Testimony
from ddpcheck.measures.waiting import is_in_transfer
from ddpcheck.measures.words import spans

Facts = Testimony

# As measures.deviation says it of a call that makes groups.
MADE_AT = re.compile(r" new_group\b[^;]*? at (\S+:\d+) as its collective")


def judge(facts: Mapping[int, Testimony]) -> list[Finding]:
    """Return a finding for those whose first differing call is not what most called."""
    rulings = inquest(facts)
    odd = {rank: ruling for rank, ruling in rulings.items() if ruling.kind is Kind.OTHER_CALL}
    if not odd:
        return []
    first = min(odd)
    sure = all(ruling.is_sure for ruling in odd.values())
    # A transfer that does not come is what follows of a collective that not all call.
    ordered = sorted(odd, key=lambda rank: (is_in_transfer(facts[rank]), rank))
    places = (users_place(facts[rank].stack) for rank in ordered)
    aside = next((call for own in facts.values() for call in _under_way_aside(own)), None)
    beside = f"; {aside.what} was under way, from {aside.site}" if aside else ""
    return [
        Finding(
            title=f"{len(odd)} of {len(facts)} ranks called another collective than the others"
            if sure
            else _undecided({rank: facts[rank] for rank in odd}),
            message="; ".join(f"rank {rank} {ruling.reason}" for rank, ruling in odd.items())
            + told_places(facts, odd)
            + beside,
            fix=_fix([ruling.reason for ruling in odd.values()], is_aside=aside is not None),
            ranks=tuple(sorted(odd)),
            # Of two ranks that differ, nobody can say which is right.
            confidence=Confidence.HIGH if sure else Confidence.MEDIUM,
            location=(place_of(aside.site) if aside else _making(odd, facts))
            or next((place for place in places if place is not None), None),
            evidence={"check": facts[first].check, "stack": facts[first].stack},
        )
    ]


def _making(odd: Mapping[int, Ruling], facts: Mapping[int, Testimony]) -> Location | None:
    """Return where a group was made that others did not make: the rank may have gone on since."""
    found = ((rank, MADE_AT.search(ruling.reason)) for rank, ruling in odd.items())
    places = (place_of_site(made[1], facts[rank].stack) for rank, made in found if made)
    return next((place for place in places if place is not None), None)


def _under_way_aside(own: Testimony) -> list[Call]:
    """Return the collectives that the thread of an async_save is in."""
    every = [*own.calls, *(call for group in own.groups for call in group.calls)]
    return [call for call in every if ASIDE in call.what and not call.done]


def _fix(reasons: list[str], *, is_aside: bool) -> str:
    if is_aside:
        return (
            "give dcp.async_save a group of its own, process_group=dist.new_group(), or wait for its "
            "future before the next collective: its thread works beside the training"
        )
    if any(CHECKPOINTS in each for each in reasons):
        return "call torch.distributed.checkpoint's save and load on all ranks: each has its part"
    if any(" new_group" in each for each in reasons):
        return "call new_group on every rank, whether it is a member or not, in the same order"
    return (
        "make every rank call the same collectives in the same order, on the same shapes and roots"
    )


def _undecided(odd: Mapping[int, Testimony]) -> str:
    """Return what can be said where it is not known whose call is the wrong one."""
    ended = [rank for rank, each in odd.items() if each.state is State.ENDED]
    if len(odd) > len(ended) > 0:
        return f"a collective waits for rank {spans(ended)}, whose script is at its end"
    return f"ranks {spans(odd)} called different collectives, which cannot pair up"


def summarize(facts: Mapping[int, Testimony]) -> str:
    """Return what did not happen, if it did not."""
    return "" if judge(facts) else "all ranks called the same collectives"
