"""A check raised on some ranks and not on all.

Why it matters
    What a check does is the same on every rank. Where it raises on one alone, that process or its
    machine is different, and a training would meet the same.

What to do
    Read the exception of the named rank. The others' errors ("Connection closed by peer") only
    follow from it. A check that raises on every rank has a fault of its own: please report it.
"""

from __future__ import annotations

from collections.abc import Mapping

from ddpcheck.finding import Finding
from ddpcheck.measures.inquest import Kind, inquest
from ddpcheck.measures.testimony import State, Testimony

Facts = Testimony
# The exceptions of these have checks of their own, which name the line.
TOLD_ELSEWHERE = ("rehearsal/training", "collectives/joining-the-group")
# Who watches a script tells what it raised, whatever became of the others.
ALWAYS_TOLD = ("watch/script",)


def judge(facts: Mapping[int, Testimony]) -> list[Finding]:
    """Return a finding for the ranks that raised by themselves, unless all ranks did."""
    rulings = inquest(facts)
    # Where a rank was cut off, those checks have not heard of all.
    whole = all(each.state in (State.ENDED, State.RAISED) for each in facts.values())
    elsewhere = (*ALWAYS_TOLD, *(TOLD_ELSEWHERE if whole else ()))
    raised = {
        rank: facts[rank]
        for rank, ruling in rulings.items()
        if ruling.kind is Kind.RAISED and facts[rank].check not in elsewhere
    }
    if not raised or len(raised) == len(facts):
        return []
    first = min(raised, key=lambda rank: (raised[rank].order, rank))
    return [
        Finding(
            title=f"a check raised on {len(raised)} of {len(facts)} ranks",
            message="; ".join(f"rank {rank} {rulings[rank].reason}" for rank in raised),
            fix="read the exception and its stack in the report: this process differs from others",
            ranks=tuple(sorted(raised)),
            evidence={"check": raised[first].check, "stack": raised[first].stack},
        )
    ]


def summarize(facts: Mapping[int, Testimony]) -> str:
    """Return what did not happen, if it did not."""
    return "" if judge(facts) else "no check raised"
