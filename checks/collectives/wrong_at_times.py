"""A collective is right most times, and wrong at some.

Why it matters
    A marginal link, memory or clock corrupts one transfer in many: a short test passes, and a
    training of days does not. What comes and goes is found only by doing the same many times.

What to do
    Take the named ranks' host out of the job and test it alone with --profile full; look at
    the corrected errors of its GPUs and links (nvidia-smi -q -d ECC, nvidia-smi nvlink -e).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, repeat

from ddpcheck.check import Context, Profile
from ddpcheck.finding import Finding
from ddpcheck.measures.wrong_elements import Compared, findings, wrong_ranks

TURNS = {Profile.QUICK: 3, Profile.STANDARD: 6, Profile.FULL: 2000}

Facts = Compared


def probe(ctx: Context) -> Facts:
    """Carry out each collective many times, each time on other numbers."""
    from ddpcheck.collectives.cases import one_of_each
    from ddpcheck.collectives.comparison import compared

    ctx.require_group()
    each = one_of_each(ctx.world_size)
    return compared(ctx, chain.from_iterable(repeat(each, TURNS[ctx.profile])))


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return one finding for the ranks that got a wrong element in some turn.

    What is wrong in every turn is told by collectives/wrong-values, too.
    """
    bad = wrong_ranks(facts)
    first = min((wrong.turn for fact in bad.values() for wrong in fact.wrong), default=0)
    return findings(facts, f", first after {first} right ones")


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how often the same was done."""
    fact = next(iter(facts.values()))
    return f"{fact.cases} times the same, {fact.elements:,} elements compared on each rank"
