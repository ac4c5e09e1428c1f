"""The ranks cannot meet at MASTER_ADDR:MASTER_PORT.

Why it matters
    Without a meeting there is no process group. torch waits for it without end when something
    else answers at that port, or gives up on one rank and hangs on the others.

What to do
    MASTER_ADDR must be the address of rank 0's host, as the other hosts see it, and MASTER_PORT
    a free port there that no firewall closes. Two jobs on one host need two ports.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Finding


class Facts(msgspec.Struct, frozen=True):
    """Where the rank met the others, after how many wall seconds, or why it could not."""

    place: str
    duration_s: float
    error: str


def probe(ctx: Context) -> Facts:
    """Return how the meeting went; a rank that can tell the others has met them."""
    if ctx.meeting is None:
        raise Skip("the ranks did not try to meet")
    return Facts(ctx.meeting.place, ctx.meeting.duration_s, ctx.meeting.error)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for the ranks that could not meet the others."""
    apart = {rank: fact for rank, fact in sorted(facts.items()) if fact.error}
    if not apart:
        return []
    first = min(apart)
    return [
        Finding(
            title=f"no meeting at {apart[first].place}",
            message=apart[first].error,
            fix="check that MASTER_ADDR is rank 0's host, that rank 0 was started, and that "
            "MASTER_PORT is free there and open from here",
            ranks=tuple(apart),
            evidence={"place": apart[first].place, "duration_s": apart[first].duration_s},
        )
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how long the slowest rank took to meet the others, if all did."""
    if any(fact.error for fact in facts.values()):
        return ""
    slowest = max(fact.duration_s for fact in facts.values())
    return f"{len(facts)} ranks met in {slowest:.1f} s"
