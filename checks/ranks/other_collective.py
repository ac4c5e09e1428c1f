"""A rank called another collective than the others, or on another shape or dtype.

Why it matters
    Collectives pair up in the order of the calls. One that differs takes the others' data for its
    own: wrong values, an abort of a rank that did nothing wrong, or a hang some calls later.

What to do
    Go to the line of the named rank and see why it takes another path: a condition on the rank,
    a loop of another length, a batch of another size.
"""

from __future__ import annotations

from collections.abc import Mapping

from ddpcheck.finding import Confidence, Finding
from ddpcheck.measures.inquest import Kind, inquest
from ddpcheck.measures.stack_lines import told_places, users_place
from ddpcheck.measures.testimony import Testimony

Facts = Testimony


def judge(facts: Mapping[int, Testimony]) -> list[Finding]:
    """Return a finding for those whose first differing call is not what most called."""
    rulings = inquest(facts)
    odd = {rank: ruling for rank, ruling in rulings.items() if ruling.kind is Kind.OTHER_CALL}
    if not odd:
        return []
    first = min(odd)
    sure = all(ruling.is_sure for ruling in odd.values())
    return [
        Finding(
            title=f"{len(odd)} of {len(facts)} ranks called another collective",
            message="; ".join(f"rank {rank} {ruling.reason}" for rank, ruling in odd.items())
            + told_places(facts, odd),
            fix="make every rank call the same collectives in the same order, on the same shapes",
            ranks=tuple(sorted(odd)),
            # Of two ranks that differ, nobody can say which is right.
            confidence=Confidence.HIGH if sure else Confidence.MEDIUM,
            location=users_place(facts[first].stack),
            evidence={"check": facts[first].check, "stack": facts[first].stack},
        )
    ]


def summarize(facts: Mapping[int, Testimony]) -> str:
    """Return what did not happen, if it did not."""
    return "" if judge(facts) else "all ranks called the same collectives"
