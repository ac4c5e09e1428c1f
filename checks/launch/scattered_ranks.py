"""Ranks of one job were told to meet at different places.

Why it matters
    Every process that looks for a free port by itself, or reads a stale variable, waits at a place
    of its own: each of them times out ("1/2 clients joined"), and none says where the others went.
What to do
    Choose MASTER_ADDR and MASTER_PORT once, in the script that starts the ranks, and hand them to
    all; or let torchrun do it.
"""

from collections.abc import Iterator, Mapping

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding
from ddpcheck.machine.processes import place_in, ranks_elsewhere
from ddpcheck.measures.rank_process import RankProcess
from ddpcheck.measures.words import listed


class Facts(msgspec.Struct, frozen=True):
    """Where this rank met the others, and the ranks on its host that went elsewhere."""

    host: str
    place: str
    elsewhere: list[RankProcess]


def probe(ctx: Context) -> Facts:
    """Return which absent ranks run on this host, but for another meeting place."""
    ctx.require_meeting()
    asked = ctx.environ.get("WORLD_SIZE", "")
    if not asked.isdecimal() or int(asked) <= ctx.world_size:
        raise Skip("all ranks came")
    # Each waits by itself, so some that were seen have given up by now.
    seen = ctx.meeting.elsewhere if ctx.meeting is not None else ()
    found = {each.pid: each for each in (*seen, *ranks_elsewhere(ctx.environ))}
    return Facts(ctx.host, place_in(ctx.environ), list(found.values()))


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return one finding, for the absent ranks that went elsewhere."""
    found = sorted(set(_absent(facts)))
    if not found:
        return []
    place = next(iter(facts.values())).place
    told = listed([text for _, text in found])
    return [
        Finding(
            title="ranks wait at another MASTER_PORT",
            message=f"this run meets at {place}; elsewhere: {told}",
            fix="set MASTER_ADDR and MASTER_PORT once, in the script that starts the ranks, and "
            "not in each rank; or start them with torchrun",
            ranks=tuple(sorted({rank for rank, _ in found})),
            confidence=Confidence.MEDIUM,
        )
    ]


def _absent(facts: Mapping[int, Facts]) -> Iterator[tuple[int, str]]:
    for own in facts.values():
        # Where a rank that is here has a double, another job meets.
        other_jobs = {other.place for other in own.elsewhere if other.rank in facts}
        for other in own.elsewhere:
            if other.rank not in facts and other.place not in other_jobs:
                yield other.rank, f"rank {other.rank} ({own.host}, pid {other.pid}) {other.place}"
