"""One rank comes late to the collectives, and all others wait for it.

Why it matters
    A synchronous step is as long as the slowest rank's. One that computes a tenth slower makes
    the whole job a tenth slower, and every profile blames the all-reduce in which the others wait.

What to do
    A tenth is told on GPUs, and on cores with --profile full: what else a core does hides it for
    a while. On the named host, look at what slows it: nvidia-smi -q -d PERFORMANCE,CLOCK on a GPU;
    top, the CPU limit of its container, and how ranks are bound to cores on a CPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from ddpcheck.check import Context, Profile, Skip
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.machine.core_waits import CoreWaits
from ddpcheck.measures.lateness import Slower, Turns, late_by_s, slower_ranks
from ddpcheck.measures.peers import grouped
from ddpcheck.measures.words import listed

CPU = "cpu"


class Limits(NamedTuple):
    """By which part of the others' time a rank is slower that is named.

    By ``steady`` in most stretches of turns, where there are several, or ``altogether``.
    """

    steady: float
    altogether: float


# A rank that is a tenth slower is to be found. Cores are equal but for what else they do, which may
# halve their speed for a second (see ``measures.lateness``); GPUs of one model differ by some
# hundredths (two H200 of one host by 0.02 to 0.055; a tenth slower: 0.12 to 0.15).
LIMITS = {True: Limits(0.05, 1.0), False: Limits(0.08, 0.25)}
STRETCHES = {
    Profile.QUICK: {True: (1, 1), False: (1, 1)},
    Profile.STANDARD: {True: (1, 1), False: (6, 20)},
    Profile.FULL: {True: (20, 120), False: (20, 60)},
}


class Facts(msgspec.Struct, frozen=True):
    """Where a rank is, what it computes on, and its turns of compute and a collective.

    ``core_waits`` is which part of the time may have been lost by waiting for a core.
    """

    host: str
    kind: str
    turns: Turns
    core_waits: float = 0.0


def probe(ctx: Context) -> Facts:
    """Compute the same on each rank and then reduce a little, turn by turn."""
    ctx.require_group()
    if ctx.world_size == 1:
        raise Skip("there is no other rank")
    import torch
    import torch.distributed as dist

    from ddpcheck.collectives.turns import Plan, take_turns

    kind = torch.cuda.get_device_properties(ctx.device).name if ctx.on_gpu else CPU
    kinds: list[str] = [""] * ctx.world_size
    dist.all_gather_object(kinds, kind)
    least, most = STRETCHES[ctx.profile][kind == CPU]
    plan = Plan(least, most, LIMITS[kind == CPU].steady, dict(enumerate(kinds)))
    waits = CoreWaits()
    turns = take_turns(ctx, plan)
    return Facts(ctx.host, kind, turns, waits.share)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return one finding for the ranks whose compute is slower than their peers'."""
    turns = {rank: own.turns for rank, own in facts.items()}
    kinds = {rank: own.kind for rank, own in facts.items()}
    limit = LIMITS[CPU in kinds.values()]
    slow = slower_ranks(turns, kinds, limit.steady, limit.altogether)
    if not slow:
        return []
    waited = late_by_s(turns)
    return [
        Finding(
            title=f"{_who([each.rank for each in slow], facts)} more slowly than the others",
            message=f"{listed((_told(each, facts) for each in slow), '; ')}; limit "
            f"{limit.steady if slow[0].is_steady else limit.altogether:.0%}; in {len(turns[slow[0].rank].wait_s)} turns the others waited "
            f"{sum(waited[each.rank] for each in slow):.3f} of {sum(waited.values()):.3f} s for "
            f"{'it' if len(slow) == 1 else 'them'}",
            fix="on the named host, look at what slows it: nvidia-smi -q -d PERFORMANCE,CLOCK, "
            "or top and the container's CPU limit",
            ranks=tuple(each.rank for each in slow),
            severity=_severity([facts[each.rank].kind for each in slow]),
            confidence=Confidence.MEDIUM,
            evidence={"waited_s": {str(rank): round(s, 4) for rank, s in waited.items()}},
        )
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return for whom the others waited the most."""
    waited = late_by_s({rank: own.turns for rank, own in facts.items()})
    last = max(waited, key=lambda rank: waited[rank])
    turns = len(facts[last].turns.wait_s)
    return f"in {turns} turns the others waited {waited[last]:.3f} s for rank {last}, the most"


def _who(slow: Sequence[int], facts: Mapping[int, Facts]) -> str:
    """Return the hosts that the slow ranks are all of, several each, or else how many are slow."""
    hosts = grouped({rank: own.host for rank, own in facts.items()})
    bad = [host for host, ranks in hosts.items() if len(ranks) > 1 and set(ranks) <= set(slow)]
    if bad and len(bad) < len(hosts) and len(slow) == sum(len(hosts[host]) for host in bad):
        return f"all ranks of {listed(bad)} compute"
    return f"{len(slow)} of {len(facts)} ranks compute"


def _severity(kinds: Sequence[str]) -> Severity:
    # Whatever else runs on a core, or beside it, slows a rank there, and is often no fault.
    return Severity.INFO if set(kinds) == {CPU} else Severity.WARNING


def _told(slow: Slower, facts: Mapping[int, Facts]) -> str:
    count = len(facts[slow.rank].turns.pace_s)
    steadily = f", from {slow.low:.0%} to {slow.high:.0%} in the middle half of {count} stretches"
    return (
        f"rank {slow.rank} ({facts[slow.rank].host}) by {slow.excess:.0%}"
        f"{steadily if slow.is_steady and count > 1 else ' over all turns'}"
    )
